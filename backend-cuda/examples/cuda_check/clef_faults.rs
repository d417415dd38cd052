//! What a faulty weight and too little memory do: both are named, and nothing else is harmed.

use std::path::Path;
use std::sync::Arc;

use dikast_core::backend::Taps;
use dikast_core::checkpoint::{Blob, Checks, ModelFiles};
use dikast_core::engine::{ClefSequence, Engine, EngineOptions};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::{Error, Result};

use crate::clef::{bits, sequence};
use crate::clef_bench::Measured;
use crate::report::Report;

/// The weight that gets a NaN, its value's index, and the first step that reads it.
const PLANTED: (&str, usize, &str) =
    ("model.language_model.layers.2.linear_attn.conv1d.weight", 7, "layer.2.conv");
const WEIGHTS: &str = "model.safetensors";

/// All faults on a small model. `open` takes a budget.
pub fn all<B: Measured>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn(Option<u64>) -> Result<B>,
    folder: &Path,
) {
    let result = nan(report, label, open, folder);
    report.outcome(&format!("{label} planted NaN"), result);
    let result = memory(report, label, open, folder);
    report.outcome(&format!("{label} too little memory"), result);
}

/// The model's files with a NaN in [`PLANTED`].
fn planted(folder: &Path) -> Result<ModelFiles> {
    let files = ModelFiles::open(folder)?;
    let mut own: Vec<(String, Blob)> = Vec::new();
    for name in files.names() {
        let mut bytes = files.read(name)?.bytes().to_vec();
        if name == WEIGHTS {
            let wrong = || Error::Internal(format!("{name} has no {}", PLANTED.0));
            let length = 8 + bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)) as usize;
            let header: serde_json::Value =
                serde_json::from_slice(bytes.get(8..length).unwrap_or_default()).map_err(|_| wrong())?;
            let start = header[PLANTED.0]["data_offsets"][0].as_u64().ok_or_else(wrong)? as usize;
            // A quiet NaN in bfloat16.
            let at = length + start + 2 * PLANTED.1;
            bytes.get_mut(at..at + 2).ok_or_else(wrong)?.copy_from_slice(&[0xC0, 0x7F]);
        }
        own.push((name.to_owned(), Blob::Owned(Arc::from(bytes))));
    }
    Ok(ModelFiles::from_memory("planted", own))
}

fn nan<B: Measured>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn(Option<u64>) -> Result<B>,
    folder: &Path,
) -> Result<()> {
    let files = planted(folder)?;
    // As every program loads it.
    let refusal = Clef::load(&files).err().map_or_else(|| "not refused".to_owned(), |e| e.to_string());
    let named = refusal.contains(PLANTED.0) && refusal.contains("NaN");
    report.check(&format!("{label} NaN in a weight: the model does not load"), named, &refusal);
    // Loaded without a look at its values: the device shows the step where it comes in.
    let unseen = Clef::load_with(&files, ClefOptions { checks: Checks::HEADERS, ..ClefOptions::default() })?;
    let mut engine = Engine::with_model(open(None)?, unseen, EngineOptions::default(), &mut |_, _| {})?;
    let own = sequence(engine.model(), 200, 2, 2, 3);
    let mut taps = Taps::all(engine.graph());
    let logits = pollster::block_on(engine.run(&[&own], &mut taps))?.concat();
    let bad = |id| taps.get(id).is_some_and(|values| values.iter().any(|v| !v.is_finite()));
    let outputs = engine.graph().steps().iter().flat_map(dikast_core::graph::Step::outputs);
    let first = outputs.into_iter().find(|id| bad(*id)).map(|id| engine.graph().tensor(id).name.clone());
    let detail = format!("the first step that is not finite: {first:?}; {} logits", logits.len());
    let seen = first.as_deref() == Some(PLANTED.2) && logits.iter().any(|l| !l.is_finite());
    report.check(&format!("{label} NaN on the device"), seen, &detail);
    Ok(())
}

fn memory<B: Measured>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn(Option<u64>) -> Result<B>,
    folder: &Path,
) -> Result<()> {
    let options = EngineOptions { max_tokens: 512, batch_tokens: 512, ..EngineOptions::default() };
    let load = |budget: Option<u64>| -> Result<Engine<B, Clef>> {
        let model = Clef::load(&ModelFiles::open(folder)?)?;
        Engine::with_model(open(budget)?, model, options.clone(), &mut |_, _| {})
    };
    let sound = load(None)?;
    let needed = sound.budget()?.device();
    let ask = |engine: &mut Engine<B, Clef>, own: &ClefSequence| -> Result<Vec<u32>> {
        Ok(bits(&pollster::block_on(engine.logits(&[own]))?.concat()))
    };
    let small = sequence(sound.model(), 200, 2, 2, 3);
    let mut sound = sound;
    let want = ask(&mut sound, &small)?;
    drop(sound);

    let before = open(None)?.in_use()?;
    let refusal = load(Some(needed / 2)).err();
    let good = matches!(&refusal, Some(Error::OutOfMemory { needed: n, available, .. }) if *n == needed && *available <= needed / 2);
    let said = refusal.map_or_else(|| "not refused".to_owned(), |e| e.to_string());
    report.check(&format!("{label} half the memory: refused"), good, &said);
    let after = open(None)?.in_use()?;
    report.check(
        &format!("{label} half the memory: nothing stays"),
        before == after,
        &format!("{before} bytes before, {after} after"),
    );

    // Some room beside what is needed: a request that is far too long is refused, and the engine goes on.
    let allowed = needed + needed / 4;
    let mut tight = load(Some(allowed))?;
    let needs = |tokens: usize| -> Result<u64> {
        let batch = tight.pack(&[&sequence(tight.model(), tokens, 2, 2, 3)])?;
        let bucket = tight.backend().bucket(&batch.sizes);
        Ok(tight.backend().budget(tight.graph(), tight.model().weights(), &bucket)?.device())
    };
    let mut tokens = 1024;
    while needs(tokens)? <= allowed {
        tokens *= 2;
    }
    let large = sequence(tight.model(), tokens, 2, 2, 3);
    let first = ask(&mut tight, &small)?;
    let in_use = tight.backend().in_use()?;
    let refusal = ask(&mut tight, &large).err();
    let good = matches!(&refusal, Some(Error::OutOfMemory { needed, available, .. }) if needed > available);
    let said = refusal.map_or_else(|| "not refused".to_owned(), |e| e.to_string());
    report.check(&format!("{label} a request of {tokens} tokens over the budget: refused"), good, &said);
    let second = ask(&mut tight, &small)?;
    let now = tight.backend().in_use()?;
    report.check(
        &format!("{label} after it"),
        first == want && second == want && in_use == now,
        &format!("answers have the bits from before; memory {in_use} bytes before, {now} after"),
    );
    Ok(())
}
