//! Measuring the requests of a file.

use std::path::Path;
use std::time::Instant;

use dikast_core::backend::Backend;
use dikast_core::engine::Engine;
use dikast_core::request::{ClassifyRequest, parse_json};
use pollster::block_on;
use serde_json::{Value, json};

use super::report::FileCell;
use super::timing::{Repeats, summary};
use crate::exit::{Failure, Result};

/// The requests of a JSONL file; blank lines are skipped.
pub(super) fn read(path: &Path) -> Result<Vec<ClassifyRequest>> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let requests: Vec<ClassifyRequest> = lines
        .map(|(i, line)| request(line).map_err(|e| Failure::usage(format!("{name}: line {}: {e}", i + 1))))
        .collect::<Result<_>>()?;
    if requests.is_empty() {
        return Err(Failure::usage(format!("{name}: holds no request")));
    }
    Ok(requests)
}

fn request(line: &str) -> std::result::Result<ClassifyRequest, String> {
    let row: Value = parse_json(line).map_err(|e| e.to_string())?;
    let field = |key: &str| row.get(key).ok_or_else(|| format!("{key} is missing"));
    let request = json!({"text": field("text")?, "labels": field("labels")?, "multi_label": false});
    ClassifyRequest::from_json(&request).map_err(|e| e.to_string())
}

/// Passes over all requests, `batch` of them a call. The runs that are not counted are calls, those that are, passes.
pub(super) fn measure<B: Backend>(
    engine: &mut Engine<B>,
    all: &[ClassifyRequest],
    batch: usize,
    repeats: &Repeats,
) -> Result<FileCell> {
    let mut tokens = 0;
    for request in all {
        tokens += engine.prepare(request)?.tokens;
    }
    for calls in all.chunks(batch).cycle().take(repeats.warmup) {
        call(engine, calls)?;
    }
    let (started, mut times, mut passes) = (Instant::now(), Vec::new(), 0);
    while passes == 0 || (passes < repeats.runs && started.elapsed() < repeats.limit) {
        for calls in all.chunks(batch) {
            let start = Instant::now();
            call(engine, calls)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        passes += 1;
    }
    let seconds = times.iter().sum::<f64>() * 1e-3;
    Ok(FileCell {
        requests: all.len(),
        batch,
        tokens,
        call: summary(times),
        requests_per_second: (all.len() * passes) as f64 / seconds.max(1e-9),
    })
}

fn call<B: Backend>(engine: &mut Engine<B>, requests: &[ClassifyRequest]) -> Result<()> {
    for answer in block_on(engine.classify(requests)) {
        answer?;
    }
    Ok(())
}
