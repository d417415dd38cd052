//! Speed of the products with INT8 weights at the shapes of the 9B: packed codes in every tile worth a try, weights alone on
//! both of their loops, in turns, so that all have the same clocks. Packed ones must have the same bits.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dikast_core::backend::{Backend, Batch, Planted, Taps};
use dikast_core::checkpoint::{Blob, Checks, Expected, ModelFiles, StoredType, TensorSpec, Values, Weights};
use dikast_core::graph::{
    Activation, Elements, Graph, GraphBuilder, InputKind, Residency, Rotation, RowOp, Sizes, Step, Weight,
    WeightId,
};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::{Error, Result};
use dikast_wgpu::{DeviceOptions, Int8Products, Matrices, ProductChoice, WgpuBackend, WgpuPlan};
use serde_json::{Value, json};

const ROWS: [usize; 2] = [298, 1502];
/// Width of the model; its gated layer, and the projections before its mixers, are three times as wide.
const WIDTH: usize = 4096;
/// The same where it is only to be seen that all of it runs.
const QUICK: usize = 256;
/// Rows of the table that activations come from.
const TABLE: usize = 64;
const TURNS: usize = 8;
const WARM: Duration = Duration::from_millis(500);
/// The packed loop's text, for a measurement of another.
const TILE: &str = include_str!("../../../shaders/parts/int8_tile.wgsl");

/// A loop to time.
struct Candidate {
    name: String,
    options: DeviceOptions,
    /// The kind of step that it is for; all without.
    only: Option<&'static str>,
}

fn candidates(before: Option<&Path>) -> Result<Vec<Candidate>> {
    let base = DeviceOptions::from_env();
    let tile = |threads_m, threads_n, rows, depth| ProductChoice::Tile {
        threads_m,
        threads_n,
        rows,
        depth,
        buffers: 1,
    };
    let packed = |name: String, product| Candidate {
        name,
        options: DeviceOptions { int8: Int8Products::Packed, product, ..base.clone() },
        only: None,
    };
    let mut all = vec![packed("packed".to_owned(), ProductChoice::Auto)];
    for (m, n, rows, depth) in
        [(16, 8, 4, 32), (8, 8, 8, 32), (16, 16, 4, 64), (8, 16, 8, 32), (16, 8, 8, 32), (16, 16, 8, 64)]
    {
        all.push(packed(format!("packed {m}×{n}×{rows}, {depth} codes"), tile(m, n, rows, depth)));
    }
    if let Some(path) = before {
        let to =
            std::fs::read_to_string(path).map_err(|e| Error::Internal(format!("{}: {e}", path.display())))?;
        // Workgroups of 64 rows and 64 columns, of both halves of a gate.
        for (only, threads_n) in [("Int8Linear", 8), ("Int8LinearGated", 16)] {
            let planted =
                Planted { kernel: "int8_product".to_owned(), from: TILE.to_owned(), to: to.clone() };
            let mut candidate = packed(format!("before, {only}"), tile(16, threads_n, 4, 32));
            candidate.options.planted = Some(planted);
            all.push(Candidate { only: Some(only), ..candidate });
        }
    }
    for (name, matrices) in [("weights alone", Matrices::Auto), ("weights alone, portable", Matrices::Off)] {
        let options = DeviceOptions { int8: Int8Products::WeightOnly, matrices, ..base.clone() };
        all.push(Candidate { name: name.to_owned(), options, only: None });
    }
    Ok(all)
}

/// `before`: a file with another text of the packed loop.
pub(crate) fn measure(base: &WgpuBackend, before: Option<&Path>, quick: bool) -> Result<Value> {
    let (graph, weights) = layers(if quick { QUICK } else { WIDTH })?;
    let resident = base.load(&graph, &weights, &mut |_, _| {})?;
    let candidates = candidates(before)?;
    let mut all = Vec::new();
    for rows in if quick { &ROWS[..1] } else { &ROWS[..] }.iter().copied() {
        let sizes = Sizes { tokens: rows, sequences: 1, labels: 1, ..Sizes::default() };
        let mut batch = Batch::new(sizes);
        batch.set(InputKind::TokenIds, (0..rows).map(|t| (t % TABLE) as i32).collect());
        let mut ready: Vec<(WgpuBackend, WgpuPlan)> = Vec::new();
        let mut bits: Option<Vec<u32>> = None;
        for candidate in &candidates {
            let backend = base.again(&candidate.options);
            let start = Instant::now();
            let mut plan = backend.plan(&graph, &resident, &backend.bucket(&sizes))?;
            let out = pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut Taps::none()))?;
            eprintln!(
                "{rows} rows, {}: first run after {:.1} s",
                candidate.name,
                start.elapsed().as_secs_f64()
            );
            let found: Vec<u32> = out.iter().map(|v| v.to_bits()).collect();
            let packed = candidate.options.int8 == Int8Products::Packed && candidate.only.is_none();
            if out.iter().any(|v| !v.is_finite())
                || (packed && *bits.get_or_insert_with(|| found.clone()) != found)
            {
                return Err(Error::Internal(format!("{}: other bits, or not finite", candidate.name)));
            }
            ready.push((backend, plan));
        }
        let start = Instant::now();
        while start.elapsed() < WARM {
            let (backend, plan) = &mut ready[0];
            pollster::block_on(backend.run(plan, &resident, &batch, &mut Taps::none()))?;
        }
        let products: Vec<usize> =
            (0..graph.steps().len()).filter(|&i| graph.steps()[i].name().starts_with("Int8Linear")).collect();
        let mut times = vec![vec![Vec::new(); products.len()]; ready.len()];
        for _ in 0..TURNS {
            for ((backend, plan), times) in ready.iter_mut().zip(&mut times) {
                for time in pollster::block_on(backend.profile(plan, &resident, &batch))? {
                    if let Some(at) = products.iter().position(|&step| step == time.step) {
                        times[at].push(time.nanos);
                    }
                }
            }
        }
        for (at, &step) in products.iter().enumerate() {
            let step = &graph.steps()[step];
            let rate = graph.flops(step, &sizes) as f64;
            let mut lines = Vec::new();
            for (candidate, times) in candidates.iter().zip(&mut times) {
                if candidate.only.is_some_and(|only| only != step.name()) {
                    continue;
                }
                times[at].sort_unstable();
                let nanos = times[at][times[at].len() / 2];
                let (us, tflops) = (nanos as f64 / 1e3, rate / nanos as f64 / 1e3);
                lines.push((nanos, format!("{us:9.1} µs {tflops:6.1} TOP/s {}", candidate.name)));
                all.push(json!({
                    "rows": rows, "step": label(&graph, step), "loop": candidate.name, "us": us, "tops": tflops,
                }));
            }
            lines.sort();
            eprintln!("{rows} rows, {}", label(&graph, step));
            lines.iter().for_each(|(_, line)| eprintln!("    {line}"));
        }
    }
    Ok(Value::from(all))
}

fn label(graph: &Graph, step: &Step) -> String {
    let out = step.outputs().first().map_or("", |&id| graph.tensor(id).name.as_str());
    format!("{} {out}", step.name())
}

/// The products of a layer, one behind the other: a mixer's output, the gate, the way back, the next mixer's input.
fn layers(width: usize) -> Result<(Graph, Weights)> {
    let wide = 3 * width;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = |count: usize| -> Vec<u8> {
        (0..count.div_ceil(4))
            .flat_map(|_| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((random >> 32) as u32).to_le_bytes()
            })
            .take(count)
            .collect()
    };
    let mut stored: Vec<(String, StoredType, Vec<usize>, Vec<u8>)> = Vec::new();
    let table: Vec<u8> =
        bytes(TABLE * width).iter().flat_map(|b| (f32::from(*b) - 127.5).to_le_bytes()).collect();
    stored.push(("table".to_owned(), StoredType::F32, vec![TABLE, width], table));
    let mut b = GraphBuilder::new("INT8 layer");
    let ids = b.input(InputKind::TokenIds);
    let table = b.add_weight(whole("table", &[TABLE, width], Elements::Real, Residency::HostRows));
    let x = b.embed("x", ids, table, None);
    let rotation = Rotation { group: Some(Group::DEFAULT), mode: Int8Mode::Standard };
    let mut projection = |b: &mut GraphBuilder, name: &str, n: usize, k: usize| -> (WeightId, WeightId) {
        let (weight, scale) = (format!("{name}.weight"), format!("{name}.weight_scale"));
        stored.push((weight.clone(), StoredType::I8, vec![n, k], bytes(n * k)));
        let scales =
            bytes(n).iter().flat_map(|b| (1e-4 * (1.0 + f32::from(*b) / 256.0)).to_le_bytes()).collect();
        stored.push((scale.clone(), StoredType::F32, vec![n, 1], scales));
        (
            b.add_weight(whole(&weight, &[n, k], Elements::Int8, Residency::Device)),
            b.add_weight(whole(&scale, &[n, 1], Elements::Real, Residency::Device)),
        )
    };
    let (codes, _) = b.rotate_quantize("mixed.in", RowOp::Copy { x }, rotation, false);
    let weight = projection(&mut b, "mixed", width, width);
    let x = b.int8_linear("mixed.out", codes, weight, None, Some(x));
    let (codes, _) = b.rotate_quantize("gated.in", RowOp::Copy { x }, rotation, false);
    let weight = projection(&mut b, "gated", 2 * wide, width);
    let gated = b.int8_linear_gated("gated.out", codes, weight, None, Activation::Silu);
    let (codes, _) = b.rotate_quantize("down.in", RowOp::Copy { x: gated }, rotation, false);
    let weight = projection(&mut b, "down", width, wide);
    let x = b.int8_linear("down.out", codes, weight, None, Some(x));
    let (codes, _) = b.rotate_quantize("qkvz.in", RowOp::Copy { x }, rotation, false);
    let weight = projection(&mut b, "qkvz", wide, width);
    let out = b.int8_linear("qkvz.out", codes, weight, None, None);
    Ok((b.finish(out)?, checkpoint(stored)?))
}

fn whole(name: &str, shape: &[usize], elements: Elements, residency: Residency) -> Weight {
    Weight { name: name.to_owned(), parts: vec![name.to_owned()], shape: shape.to_vec(), elements, residency }
}

fn checkpoint(stored: Vec<(String, StoredType, Vec<usize>, Vec<u8>)>) -> Result<Weights> {
    let (mut entries, mut data, mut expected) = (Vec::new(), Vec::<u8>::new(), Expected::default());
    for (name, dtype, shape, bytes) in stored {
        let start = data.len();
        data.extend(bytes);
        let tag = if dtype == StoredType::I8 { "I8" } else { "F32" };
        entries.push(format!(
            r#""{name}":{{"dtype":"{tag}","shape":{shape:?},"data_offsets":[{start},{}]}}"#,
            data.len()
        ));
        let (values, companions) = (Values::Finite, vec![]);
        expected.tensors.push(TensorSpec { name, allowed: vec![dtype], shape, values, companions });
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    // The graph says how activations are rotated; the codes must say something.
    let plain = br#"{"quant_method": "int8_tensorwise", "convrot": false}"#.to_vec();
    let blob = |bytes: Vec<u8>| Blob::Owned(Arc::from(bytes));
    let files = [("model.safetensors", blob(file)), ("quantization_config.json", blob(plain))];
    let files = ModelFiles::from_memory("INT8 layer", files.map(|(name, blob)| (name.to_owned(), blob)));
    Weights::open(&files, &expected, Checks::HEADERS)
}
