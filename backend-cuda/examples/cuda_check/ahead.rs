//! Forwards of few tokens with weights asked for ahead of their products, by how far, beside forwards without.

use dikast_core::Result;
use dikast_core::backend::{Backend, Taps};
use dikast_core::checkpoint::StoredType;
use dikast_core::tokens::Sequence;
use dikast_cuda::{CudaBackend, CudaOptions, Prefetch};
use serde_json::json;

use crate::models::Synthetic;
use crate::report::Report;
use crate::synth;

/// MiB ahead, and whether only once the kernel before has ended.
const VARIANTS: [(u32, bool); 8] =
    [(0, false), (4, false), (8, false), (16, false), (24, false), (8, true), (16, true), (24, true)];
/// Replays of a round; variants take turns for as many rounds, so that a change of the clocks meets all of them.
const REPEATS: usize = 40;
const ROUNDS: usize = 3;

pub fn compare(report: &mut Report, options: &CudaOptions) {
    let result = run(report, options);
    report.outcome("weights asked for ahead", result);
}

fn run(report: &mut Report, options: &CudaOptions) -> Result<()> {
    let model = Synthetic::new(synth::ultra(24, 32_768), StoredType::F8E4M3)?;
    let mut backend = CudaBackend::open(CudaOptions { poison: false, ..options.clone() })?;
    let resident = backend.load(&model.graph, &model.weights, &mut |_, _| {})?;
    for tokens in [64, 128, 256] {
        let sequence: Sequence = model.sequence(tokens, 4, 0);
        let batch = model.batch(&[&sequence])?;
        let bucket = backend.bucket(&batch.sizes);
        let mut plans = Vec::new();
        for (mib, late) in VARIANTS {
            backend.set_prefetch(Prefetch { bytes: mib << 20, late });
            plans.push(backend.plan(&model.graph, &resident, &bucket)?);
        }
        let mut bits: Vec<Vec<u32>> = Vec::new();
        let mut device = vec![Vec::new(); plans.len()];
        let mut host = vec![Vec::new(); plans.len()];
        for plan in &mut plans {
            let logits = pollster::block_on(backend.run(plan, &resident, &batch, &mut Taps::none()))?;
            bits.push(logits.iter().map(|x| x.to_bits()).collect());
        }
        for _ in 0..ROUNDS {
            for (i, plan) in plans.iter_mut().enumerate() {
                device[i].push(backend.time_forward(plan, &resident, &batch, REPEATS)?);
                host[i].push(backend.time_requests(plan, &resident, &batch, REPEATS)?.0);
            }
        }
        report.check(
            &format!("ahead {tokens}: the same bits"),
            bits.iter().all(|b| *b == bits[0]),
            &format!("{} variants", bits.len()),
        );
        for (i, (mib, late)) in VARIANTS.into_iter().enumerate() {
            let (device, host) = (median(&mut device[i]), median(&mut host[i]));
            let when = if late { "late" } else { "early" };
            report.figure(
                format!("ahead {tokens:3} tokens, {mib:2} MiB {when:5}: device {device:7.1} us, request {host:7.1} us"),
                json!({ "ahead": tokens, "mib": mib, "late": late, "device_us": device, "host_us": host }),
            );
        }
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
