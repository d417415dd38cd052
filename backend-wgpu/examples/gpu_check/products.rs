//! Speed of the products: `QuantLinear` and `Linear` (BF16) at the encoder's shapes in every loop, by timestamp queries.

use std::sync::Arc;

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::{Blob, Checks, Expected, ModelFiles, StoredType, TensorSpec, Values, Weights};
use dikast_core::graph::{Activation, Elements, Graph, GraphBuilder, InputKind, Residency, Sizes, Weight};
use dikast_core::{Error, Result};
use dikast_wgpu::{DeviceOptions, ProductChoice, WgpuBackend};
use serde_json::{Value, json};

/// Rows, K, N of the encoder's products at several lengths.
const SHAPES: [(usize, usize, usize); 9] = [
    (128, 2048, 10240),
    (128, 2048, 2048),
    (128, 5120, 2048),
    (256, 2048, 10240),
    (4096, 2048, 10240),
    (4096, 5120, 2048),
    (4, 2048, 2048),
    (4096, 2048, 6144),
    (128, 2048, 6144),
];

const fn tile(threads_m: u32, threads_n: u32, rows: u32, depth: u32, buffers: u32) -> ProductChoice {
    ProductChoice::Tile { threads_m, threads_n, rows, depth, buffers }
}

/// All portable loops worth a try.
pub(crate) const PORTABLE: &[ProductChoice] = &[
    ProductChoice::Auto,
    tile(8, 8, 4, 16, 1),
    tile(8, 8, 8, 16, 1),
    tile(8, 8, 8, 32, 1),
    tile(8, 4, 4, 16, 1),
    tile(8, 4, 8, 16, 1),
    tile(4, 8, 8, 16, 1),
    tile(4, 4, 4, 16, 1),
    tile(4, 4, 4, 16, 2),
    tile(2, 8, 4, 8, 1),
];
/// All tiles of cooperative matrices.
const COOPERATIVE: &[ProductChoice] = &[
    ProductChoice::Cooperative { m: 1, n: 1 },
    ProductChoice::Cooperative { m: 1, n: 2 },
    ProductChoice::Cooperative { m: 2, n: 1 },
    ProductChoice::Cooperative { m: 2, n: 2 },
];

/// Every shape in the default loop, or in all of them.
pub(crate) fn measure(base: &WgpuBackend, all_loops: bool, quick: bool) -> Result<Value> {
    let mut backends = Vec::new();
    for (name, options) in crate::paths() {
        let choices = if name == "cooperative" { COOPERATIVE } else { PORTABLE };
        for &product in if all_loops { choices } else { &[ProductChoice::Auto][..] } {
            let backend = base.again(&DeviceOptions { product, ..options.clone() });
            if name != "cooperative" || backend.uses_matrices() {
                backends.push((name, product, backend));
            }
        }
    }
    let mut all = Vec::new();
    for (rows, k, n) in SHAPES.into_iter().step_by(if quick { 2 } else { 1 }) {
        let (graph, weights) = graph(k, n)?;
        let mut lines = Vec::new();
        for (path, product, backend) in &backends {
            for (name, nanoseconds) in pollster::block_on(times(backend, &graph, &weights, rows, 5))? {
                let rate = 2.0 * rows as f64 * k as f64 * n as f64 / nanoseconds as f64 / 1e3;
                let line = format!("{name} {path} {product:?}");
                lines.push((
                    nanoseconds,
                    format!("{:8.1} µs {rate:6.1} TFLOP/s {line}", nanoseconds as f64 / 1e3),
                ));
                all.push(json!({
                    "rows": rows, "k": k, "n": n, "step": name, "loop": format!("{product:?}"),
                    "path": path, "us": nanoseconds as f64 / 1e3, "tflops": rate,
                }));
            }
        }
        lines.sort();
        eprintln!("{rows} × {k} × {n}");
        for (_, line) in lines {
            eprintln!("    {line}");
        }
    }
    Ok(Value::from(all))
}

/// The least nanoseconds of each product of the graph.
async fn times(
    backend: &WgpuBackend,
    graph: &Graph,
    weights: &Weights,
    tokens: usize,
    repeats: usize,
) -> Result<Vec<(String, u64)>> {
    let sizes = Sizes { tokens, sequences: 1, labels: 1, ..Sizes::default() };
    let resident = backend.load(graph, weights, &mut |_, _| {})?;
    let mut plan = backend.plan(graph, &resident, &backend.bucket(&sizes))?;
    let mut batch = Batch::new(sizes);
    batch.set(InputKind::TokenIds, (0..tokens as i32).map(|t| t % 64).collect());
    // A card that has idled needs a while to come back to its clocks.
    let start = std::time::Instant::now();
    while start.elapsed().as_millis() < 60 {
        backend.run(&mut plan, &resident, &batch, &mut Taps::none()).await?;
    }
    let mut best: Vec<(String, u64)> = Vec::new();
    for repeat in 0..repeats {
        let times = backend.profile(&mut plan, &resident, &batch).await?;
        let named = times.into_iter().map(|t| (&graph.steps()[t.step], t.nanos));
        let products = named.filter(|(step, _)| step.name().contains("Linear"));
        for (i, (step, nanos)) in products.enumerate() {
            if repeat == 0 {
                let out = step.outputs().first().map_or("", |&id| graph.tensor(id).name.as_str());
                best.push((format!("{} {out}", step.name()), nanos));
            } else if let Some((_, least)) = best.get_mut(i) {
                *least = nanos.min(*least);
            }
        }
    }
    Ok(best)
}

/// Embedded rows, quantized and normed, through one product each.
fn graph(k: usize, n: usize) -> Result<(Graph, Weights)> {
    let mut b = GraphBuilder::new("products");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = |count: usize, mask: u8| -> Vec<u8> {
        (0..count)
            .map(|_| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 56) as u8 & mask
            })
            .collect()
    };
    // Values of both signs around one: exponents of bfloat16 near its bias.
    let bf16 = |bytes: Vec<u8>| -> Vec<u8> {
        bytes.chunks_exact(2).flat_map(|b| [b[0], 0x3f | b[1] & 0x80]).collect()
    };
    let table = bf16(bytes(2 * 64 * k, 0xff));
    let norm = bf16(bytes(2 * k, 0x7f));
    let real = bf16(bytes(2 * n * k, 0xff));
    let codes = bytes(n * k, 0xb7);
    let scales = bf16(bytes(2 * n, 0x7f));
    let stored = [
        ("table", StoredType::BF16, vec![64, k], table),
        ("norm", StoredType::BF16, vec![k], norm),
        ("real", StoredType::BF16, vec![n, k], real),
        ("codes", StoredType::F8E4M3, vec![n, k], codes.clone()),
        ("scales", StoredType::BF16, vec![n, 1], scales.clone()),
        ("gated codes", StoredType::F8E4M3, vec![n, k], codes),
        ("gated scales", StoredType::BF16, vec![n, 1], scales),
    ];
    let whole = |name: &str, shape: &[usize], elements| Weight {
        name: name.to_owned(),
        parts: vec![name.to_owned()],
        shape: shape.to_vec(),
        elements,
        residency: Residency::Device,
    };
    let table =
        b.add_weight(Weight { residency: Residency::HostRows, ..whole("table", &[64, k], Elements::Real) });
    let ids = b.input(InputKind::TokenIds);
    let x = b.embed("x", ids, table, None);
    let norm = b.weight("norm", &[k]);
    let normed = b.rms_norm("normed", x, norm, 1e-6);
    let quantized = b.quantize("quantized", x);
    let (codes, scales) = (
        b.add_weight(whole("codes", &[n, k], Elements::E4M3)),
        b.add_weight(whole("scales", &[n, 1], Elements::Real)),
    );
    b.quant_linear("E4M3", quantized, codes, scales, None);
    // As many columns, half of them a gate.
    let (codes, scales) = (
        b.add_weight(whole("gated codes", &[n, k], Elements::E4M3)),
        b.add_weight(whole("gated scales", &[n, 1], Elements::Real)),
    );
    b.quant_linear_gated("E4M3 gated", quantized, codes, scales, Activation::GeluTanh);
    let real = b.weight("real", &[n, k]);
    let out = b.linear("BF16", normed, real, None, None, None);
    Ok((b.finish(out)?, checkpoint(&stored)?))
}

fn checkpoint(stored: &[(&str, StoredType, Vec<usize>, Vec<u8>)]) -> Result<Weights> {
    let (mut entries, mut data, mut expected) = (Vec::new(), Vec::<u8>::new(), Expected::default());
    for (name, dtype, shape, bytes) in stored {
        let start = data.len();
        data.extend(bytes);
        let tag = if *dtype == StoredType::BF16 { "BF16" } else { "F8_E4M3" };
        entries.push(format!(
            r#""{name}":{{"dtype":"{tag}","shape":{shape:?},"data_offsets":[{start},{}]}}"#,
            data.len()
        ));
        expected.tensors.push(TensorSpec {
            name: (*name).to_owned(),
            allowed: vec![*dtype],
            shape: shape.clone(),
            values: Values::Finite,
            companions: vec![],
        });
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    let blob = Blob::Owned(Arc::from(file));
    let files = ModelFiles::from_memory("products", [("model.safetensors".to_owned(), blob)]);
    Weights::open(&files, &expected, Checks::HEADERS).map_err(|e| Error::Internal(e.to_string()))
}
