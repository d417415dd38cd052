//! The state cache on a whole CLEF checkpoint: the first and the second request on a state, and their bits.

use std::path::Path;
use std::time::Instant;

use dikast_core::Result;
use dikast_core::backend::Backend;
use dikast_core::engine::{ClefSequence, Engine, EngineOptions};
use dikast_core::models::clef::Clef;
use dikast_core::numerics::int8::Int8Mode;
use serde_json::json;

use crate::clef::{bits, model, sequence};
use crate::report::Report;

/// Bytes of the cache: some states of 1,502 tokens of the 27B.
const ROOM: u64 = 1 << 30;
/// What a second request may take of the first's time.
const AIM: f64 = 0.30;
/// Options of a question.
const OPTIONS: usize = 4;

/// Requests of `tokens` tokens with 8 and with 16 questions.
pub fn cache<B: Backend>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    folder: &Path,
    (tokens, repeats): (usize, usize),
) {
    let result = (|| {
        let options = EngineOptions { max_tokens: 16_384, batch_tokens: 16_384, state_cache: ROOM };
        Engine::with_model(open()?, model(folder, Int8Mode::Standard, false)?, options, &mut |_, _| {})
    })();
    let Some(mut engine) = report.outcome(&format!("{label} state cache"), result) else { return };
    for questions in [8, 16] {
        let result = requests(report, label, &mut engine, (tokens, questions), repeats);
        report.outcome(&format!("{label} state cache, {questions} questions"), result);
    }
}

/// A request on state `state` with questions of their own.
fn request(model: &Clef, (tokens, questions): (usize, usize), state: u64, asked: u64) -> ClefSequence {
    let mut own = sequence(model, tokens, questions, OPTIONS, state);
    let others = sequence(model, tokens, questions, OPTIONS, asked);
    let first = own.record.state.end as usize;
    own.record.ids[first..].copy_from_slice(&others.record.ids[first..]);
    own
}

fn requests<B: Backend>(
    report: &mut Report,
    label: &str,
    engine: &mut Engine<B, Clef>,
    shape: (usize, usize),
    repeats: usize,
) -> Result<()> {
    let (mut whole, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
    let mut same = true;
    // The first two make plans.
    for i in 0..repeats as u64 + 2 {
        let state = 1000 + 10 * i + shape.1 as u64 * 10_000;
        let [one, two] = [1, 2].map(|asked| request(engine.model(), shape, state, state + asked));
        let mut timed = |own: &ClefSequence, cached: bool| -> Result<(f64, Vec<u32>)> {
            let start = Instant::now();
            let logits = match cached {
                true => pollster::block_on(engine.logits_of_states(&[own]))?,
                false => pollster::block_on(engine.logits(&[own]))?,
            };
            Ok((start.elapsed().as_secs_f64() * 1e3, bits(&logits.concat())))
        };
        let (a, b) = (timed(&one, false)?, timed(&two, false)?);
        let (c, d) = (timed(&one, true)?, timed(&two, true)?);
        same &= (a.1, b.1) == (c.1, d.1);
        if i >= 2 {
            whole.push(b.0);
            first.push(c.0);
            second.push(d.0);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    let [whole, first, second] = [whole, first, second].map(median);
    let (tokens, questions) = shape;
    let found = engine.state_cache();
    report.check(
        &format!("{label} state cache, bits of {questions} questions"),
        same,
        "those of whole requests",
    );
    report.check(
        &format!("{label} state cache, hits of {questions} questions"),
        found.hits >= repeats as u64 + 2 && found.bytes <= ROOM,
        &format!("{found:?}"),
    );
    report.figure(
        format!(
            "{label} state cache, {tokens} tokens, {questions} questions: whole {whole:.2} ms, first {first:.2} ms, second {second:.2} ms = {:.1} % of the first (aim {:.0} %), {:.1} % of a whole one; {:.1} MiB a state",
            100.0 * second / first,
            100.0 * AIM,
            100.0 * second / whole,
            found.bytes as f64 / found.entries.max(1) as f64 / f64::from(1 << 20),
        ),
        json!({ "state_cache": label, "tokens": tokens, "questions": questions, "whole_ms": whole, "first_ms": first,
            "second_ms": second, "ratio": second / first, "bytes": found.bytes, "entries": found.entries }),
    );
    Ok(())
}
