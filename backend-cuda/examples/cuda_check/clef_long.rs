//! Requests of many thousand tokens on a whole CLEF checkpoint, through the engine: their time a token, and the same again
//! within a budget of device memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::clef::Clef;
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::{Error, Result};
use serde_json::json;

use crate::clef::{bits, model, sequence};
use crate::clef_bench::{Measured, nvml_mib};
use crate::report::Report;

/// A budget in which no 27B fits.
const TOO_LITTLE: u64 = 20 << 30;

/// Requests of `lengths` tokens without a budget, then with one of `budget` bytes: the same bits. `open` takes a budget.
pub fn all<B: Measured>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn(Option<u64>) -> Result<B>,
    folder: &Path,
    lengths: &[usize],
    budget: u64,
) {
    let Some(model) = report.outcome(&format!("{label} files"), model(folder, Int8Mode::Standard, false))
    else {
        return;
    };
    let model = Arc::new(model);
    refused(report, label, open, &model, TOO_LITTLE.min(model.weights().total_bytes() / 2));
    let free = round(report, label, open, &model, lengths, None);
    let bound = round(report, label, open, &model, lengths, Some(budget));
    if let (Some(free), Some(bound)) = (free, bound) {
        report.check(&format!("{label} within a budget"), free == bound, "the bits of runs without one");
    }
}

/// Bits of each request's logits.
fn round<B: Measured>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn(Option<u64>) -> Result<B>,
    model: &Arc<Clef>,
    lengths: &[usize],
    budget: Option<u64>,
) -> Option<Vec<Vec<u32>>> {
    let said = budget.map_or_else(|| "without a budget".to_owned(), |b| format!("within {:.0} GiB", gib(b)));
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let options =
        EngineOptions { max_tokens: longest, batch_tokens: longest.min(16_384), ..EngineOptions::default() };
    let made = (|| {
        let backend = open(budget)?;
        // The driver's own memory is not the budget's.
        let before = backend.in_use()?;
        let engine = Engine::with_shared_model(backend, Arc::clone(model), options, &mut |_, _| {})?;
        Ok((engine, before))
    })();
    let (mut engine, before) = report.outcome(&format!("{label} {said}"), made)?;
    let mut all = Vec::new();
    for &tokens in lengths {
        let name = format!("{label} {tokens} tokens {said}");
        let result = (|| {
            let own = sequence(&engine.model().clone(), tokens, 8, 4, 1);
            let mut timed = || -> Result<(f64, Vec<f32>)> {
                let start = Instant::now();
                let logits = pollster::block_on(engine.logits(&[&own]))?.concat();
                Ok((start.elapsed().as_secs_f64() * 1e3, logits))
            };
            // The first makes the plan.
            let (first, logits) = timed()?;
            let (second, again) = timed()?;
            let in_use = engine.backend().in_use()?;
            Ok((first, second, logits, again, in_use))
        })();
        let (first, second, logits, again, in_use) = report.outcome(&name, result)?;
        let own = in_use.saturating_sub(before);
        let good = logits.iter().all(|l| l.is_finite()) && bits(&logits) == bits(&again);
        report.check(&name, good && logits.len() == 32, "finite, and the same twice");
        if let Some(budget) = budget {
            report.check(
                &format!("{name}: memory"),
                own <= budget,
                &format!("{own} bytes beside the driver's {before}, {budget} allowed"),
            );
        }
        report.figure(
            format!(
                "{name}: {second:.0} ms, {:.1} us a token (first {first:.0} ms with its plan); memory {:.2} GiB in use, {:.2} of it the driver's own, NVML {:?} MiB",
                second * 1e3 / tokens as f64,
                gib(in_use),
                gib(before),
                nvml_mib()
            ),
            json!({ "long": label, "tokens": tokens, "budget": budget, "first_ms": first, "second_ms": second,
                "us_per_token": second * 1e3 / tokens as f64, "in_use_gib": gib(in_use), "before_gib": gib(before),
                "nvml_mib": nvml_mib() }),
        );
        all.push(bits(&logits));
    }
    Some(all)
}

/// A budget that the weights alone are over: refused at once, with both numbers, and nothing is left on the device.
fn refused<B: Measured>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn(Option<u64>) -> Result<B>,
    model: &Arc<Clef>,
    budget: u64,
) {
    let name = format!("{label} in {budget} bytes");
    let result = (|| {
        let backend = open(None)?;
        let before = backend.in_use()?;
        let start = Instant::now();
        let refusal = Engine::with_shared_model(
            open(Some(budget))?,
            Arc::clone(model),
            EngineOptions::default(),
            &mut |_, _| {},
        );
        let milliseconds = start.elapsed().as_millis();
        let error = refusal.err();
        Ok((error, backend.in_use()?, before, milliseconds))
    })();
    let Some((error, after, before, milliseconds)) = report.outcome(&name, result) else { return };
    let good = matches!(&error, Some(Error::OutOfMemory { needed, available, .. })
        if *available <= budget && *needed > *available);
    let said = error.map_or_else(|| "not refused".to_owned(), |e| e.to_string());
    let detail = format!("{said}, after {milliseconds} ms; memory {before} bytes before, {after} after");
    report.check(&format!("{name}: refused"), good && before == after, &detail);
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
