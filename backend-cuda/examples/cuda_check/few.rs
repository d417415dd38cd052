//! Forwards with the FP8 products' kernel of few tokens, beside forwards without it and with other tiles for one product.

use dikast_core::Result;
use dikast_core::backend::{Backend, Taps};
use dikast_core::checkpoint::StoredType;
use dikast_core::tokens::Sequence;
use dikast_cuda::{CudaBackend, CudaOptions};
use serde_json::json;

use crate::bench::PRODUCTS;
use crate::models::Synthetic;
use crate::report::Report;
use crate::synth;

/// Replays of a round; variants take turns for as many rounds, so that a change of the clocks meets all of them.
const REPEATS: usize = 40;
const ROUNDS: usize = 3;
/// Tiles of a product beside the chosen one.
const OTHERS: usize = 3;

/// `blocks`: of the model.
pub fn compare(report: &mut Report, options: &CudaOptions, blocks: usize) {
    let result = run(report, options, blocks);
    report.outcome("forwards with the kernel of few tokens", result);
}

/// Whether the kernel of few tokens is taken, and a kernel for the products of one shape.
struct Variant {
    name: String,
    few: bool,
    preferred: Vec<(usize, usize, &'static str)>,
}

fn variants(backend: &CudaBackend, tokens: usize) -> Vec<Variant> {
    let variant = |name: &str, few, preferred| Variant { name: name.to_owned(), few, preferred };
    let mut all = vec![variant("without", false, Vec::new()), variant("with", true, Vec::new())];
    for (name, n, k, kind) in PRODUCTS {
        let kernels = backend.product_kernels(n, k, tokens, kind);
        let of_many = kernels.iter().find(|e| !e.contains("few"));
        let others = kernels.iter().filter(|e| e.contains("few")).skip(1).take(OTHERS);
        for entry in of_many.into_iter().chain(others) {
            let short = entry.trim_start_matches("sm90_fp8_");
            all.push(variant(&format!("{name} {short}"), true, vec![(n, k, *entry)]));
        }
    }
    all
}

fn run(report: &mut Report, options: &CudaOptions, blocks: usize) -> Result<()> {
    let model = Synthetic::new(synth::ultra(blocks, 32_768), StoredType::F8E4M3)?;
    let mut backend = CudaBackend::open(CudaOptions { poison: false, ..options.clone() })?;
    let resident = backend.load(&model.graph, &model.weights, &mut |_, _| {})?;
    for tokens in [64, 128, 192, 256] {
        let sequence: Sequence = model.sequence(tokens, 4, 0);
        let batch = model.batch(&[&sequence])?;
        let bucket = backend.bucket(&batch.sizes);
        let variants = variants(&backend, bucket.tokens);
        let mut plans = Vec::new();
        for variant in &variants {
            backend.set_products(variant.few, &variant.preferred);
            plans.push(backend.plan(&model.graph, &resident, &bucket)?);
        }
        let mut bits: Vec<Vec<u32>> = Vec::new();
        for plan in &mut plans {
            let logits = pollster::block_on(backend.run(plan, &resident, &batch, &mut Taps::none()))?;
            bits.push(logits.iter().map(|x| x.to_bits()).collect());
        }
        report.check(
            &format!("few {tokens}: the same bits"),
            bits.iter().all(|b| *b == bits[0]),
            &format!("{} variants", bits.len()),
        );
        let mut device = vec![Vec::new(); plans.len()];
        let mut host = vec![Vec::new(); plans.len()];
        for _ in 0..ROUNDS {
            for (i, plan) in plans.iter_mut().enumerate() {
                device[i].push(backend.time_forward(plan, &resident, &batch, REPEATS)?);
                host[i].push(backend.time_requests(plan, &resident, &batch, REPEATS)?.0);
            }
        }
        for (variant, (device, host)) in variants.iter().zip(device.iter_mut().zip(&mut host)) {
            let (device, host) = (median(device), median(host));
            report.figure(
                format!(
                    "few {tokens:3} tokens, {:16}: device {device:7.1} us, request {host:7.1} us",
                    variant.name
                ),
                json!({ "few": tokens, "variant": variant.name, "device_us": device, "host_us": host }),
            );
        }
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
