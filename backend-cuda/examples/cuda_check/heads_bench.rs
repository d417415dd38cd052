//! Forwards at the full shape with and without split rows, in turns, and the times of the steps after the encoder.

use dikast_core::Result;
use dikast_core::backend::{Backend, Taps};
use dikast_core::checkpoint::StoredType;
use dikast_core::tokens::Sequence;
use dikast_cuda::{CudaBackend, CudaOptions};
use serde_json::json;

use crate::models::Synthetic;
use crate::report::Report;
use crate::steps::distance;
use crate::synth;

/// Steps of the graph before the heads': embedding, 24 blocks of nine.
const ENCODER: usize = 1 + 24 * 9;
const ROUNDS: usize = 3;
/// With split rows, and without.
const SIDES: [bool; 2] = [true, false];

pub fn compare(report: &mut Report, options: &CudaOptions) {
    let result = run(report, options);
    report.outcome("split rows on and off", result);
}

fn run(report: &mut Report, options: &CudaOptions) -> Result<()> {
    let model = Synthetic::new(synth::ultra(24, 32_768), StoredType::F8E4M3)?;
    let mut backend = CudaBackend::open(CudaOptions { poison: false, ..options.clone() })?;
    let resident = backend.load(&model.graph, &model.weights, &mut |_, _| {})?;
    for (count, tokens) in [(1, 64), (1, 128), (1, 256), (4, 128), (8, 128), (32, 128)] {
        let sequences: Vec<Sequence> = (0..count).map(|i| model.sequence(tokens, 4, i as u64)).collect();
        let batch = model.batch(&sequences.iter().collect::<Vec<_>>())?;
        let repeats = if count * tokens > 1000 { 15 } else { 50 };
        let (mut plans, mut logits) = (Vec::new(), Vec::new());
        for split_rows in SIDES {
            backend.set_split_rows(split_rows);
            let mut plan = backend.plan(&model.graph, &resident, &backend.bucket(&batch.sizes))?;
            logits.push(pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut Taps::none()))?);
            plans.push(plan);
        }
        let off = distance(&logits[0], &logits[1]);
        report.check(
            &format!("split rows {count}x{tokens}: logits as without"),
            off < 1e-3,
            &format!("off by {off:.1e}"),
        );
        let mut device = [const { Vec::new() }; 2];
        for _ in 0..ROUNDS {
            for (plan, device) in plans.iter_mut().zip(&mut device) {
                device.push(backend.time_forward(plan, &resident, &batch, repeats)?);
            }
        }
        for (i, split_rows) in SIDES.into_iter().enumerate() {
            device[i].sort_by(f64::total_cmp);
            let us = device[i][ROUNDS / 2];
            let kernels = backend.kernels(&plans[i]);
            let times = backend.time_some_steps(&mut plans[i], &resident, &batch, &|step| step >= ENCODER)?;
            let names = kernels.iter().filter(|(step, _)| *step >= ENCODER);
            let steps: Vec<(&str, f64)> =
                names.zip(&times).map(|((_, name), t)| (*name, t.nanos as f64 / 1e3)).collect();
            let sum: f64 = steps.iter().map(|(_, us)| us).sum();
            let text: Vec<String> = steps
                .iter()
                .map(|(name, us)| format!("{} {us:.1}", name.trim_start_matches("sm90_")))
                .collect();
            let mode = if split_rows { "split" } else { "float" };
            report.figure(
                format!(
                    "heads {count:2}x{tokens:3} {mode}: forward {us:7.1} us, heads alone {sum:6.1} us: {}",
                    text.join(", ")
                ),
                json!({ "heads": [count, tokens], "split_rows": split_rows, "device_us": us, "heads_us": sum,
                    "steps": steps }),
            );
        }
    }
    Ok(())
}
