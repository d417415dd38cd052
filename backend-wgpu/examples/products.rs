//! Speed of the products on one device: `products [TOKENS] [K] [N]` times `QuantLinear` and `Linear` (BF16) in every
//! loop, f16 and f32, by timestamp queries, and prints GFLOP/s. `DIKAST_ADAPTER` chooses the device.
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

use std::sync::Arc;

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::{Blob, Checks, Expected, ModelFiles, StoredType, TensorSpec, Values, Weights};
use dikast_core::graph::{Graph, GraphBuilder, InputKind, Residency, Sizes, Weight};
use dikast_core::{Error, Result};
use dikast_wgpu::{DeviceOptions, Precision, ProductChoice, WgpuBackend};

/// Times the product runs; the fastest counts.
const REPEATS: usize = 7;

fn main() -> Result<()> {
    let mut sizes = std::env::args().skip(1).map_while(|a| a.parse::<usize>().ok());
    let tokens = sizes.next().unwrap_or(64);
    let (k, n) = (sizes.next().unwrap_or(512), sizes.next().unwrap_or(512));
    let tile = |threads_m, threads_n, rows, depth| ProductChoice::Tile { threads_m, threads_n, rows, depth };
    let choices = [
        ProductChoice::Auto,
        ProductChoice::Skinny,
        tile(8, 8, 4, 32),
        tile(4, 16, 8, 32),
        tile(8, 8, 8, 16),
        tile(8, 8, 8, 32),
        tile(8, 16, 8, 16),
        tile(16, 8, 8, 16),
        tile(16, 16, 8, 8),
        tile(16, 16, 8, 16),
    ];
    let (graph, weights) = graph(k, n)?;
    for precision in [Precision::Auto, Precision::F32] {
        for product in choices {
            let options = DeviceOptions { precision, product, ..DeviceOptions::from_env() };
            let times = pollster::block_on(measure(&options, &graph, &weights, tokens))?;
            for (name, nanoseconds) in times {
                let flops = 2.0 * tokens as f64 * k as f64 * n as f64;
                println!(
                    "{tokens} × {k} × {n} {precision:?} {product:?}: {name} {:.1} µs, {:.1} GFLOP/s",
                    nanoseconds as f64 / 1e3,
                    flops / nanoseconds.max(1) as f64
                );
            }
        }
    }
    Ok(())
}

async fn measure(
    options: &DeviceOptions,
    graph: &Graph,
    weights: &Weights,
    tokens: usize,
) -> Result<Vec<(String, u64)>> {
    let backend = WgpuBackend::open(options).await?;
    let sizes = Sizes { tokens, sequences: 1, labels: 1, text_tokens: 0 };
    let resident = backend.load(graph, weights, &mut |_, _| {})?;
    let mut plan = backend.plan(graph, &resident, &backend.bucket(&sizes))?;
    let mut batch = Batch::new(sizes);
    batch.set(InputKind::TokenIds, (0..tokens as i32).map(|t| t % 64).collect());
    backend.run(&mut plan, &resident, &batch, &mut Taps::none()).await?;
    let mut best: Vec<(String, u64)> = Vec::new();
    for repeat in 0..REPEATS {
        let times = backend.profile(&mut plan, &resident, &batch).await?;
        let named = times.into_iter().map(|t| (graph.steps()[t.step].name(), t.nanos));
        let products = named.filter(|(name, _)| name.contains("Linear"));
        for (i, (name, nanos)) in products.enumerate() {
            if repeat == 0 {
                best.push((name.to_owned(), nanos));
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
        ("codes", StoredType::F8E4M3, vec![n, k], codes),
        ("scales", StoredType::BF16, vec![n, 1], scales),
    ];
    let whole = |name: &str, shape: &[usize], fp8| Weight {
        name: name.to_owned(),
        parts: vec![name.to_owned()],
        shape: shape.to_vec(),
        fp8,
        residency: Residency::Device,
    };
    let table = b.add_weight(Weight { residency: Residency::HostRows, ..whole("table", &[64, k], false) });
    let ids = b.input(InputKind::TokenIds);
    let x = b.embed("x", ids, table, None);
    let norm = b.weight("norm", &[k]);
    let normed = b.rms_norm("normed", x, norm, 1e-6);
    let quantized = b.quantize("quantized", x);
    let (codes, scales) =
        (b.add_weight(whole("codes", &[n, k], true)), b.add_weight(whole("scales", &[n, 1], false)));
    b.quant_linear("E4M3", quantized, codes, scales, None);
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
