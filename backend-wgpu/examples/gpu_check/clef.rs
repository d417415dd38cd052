//! The whole forward pass of a CLEF checkpoint of the 9B's shape, INT8 ConvRot, synthetic weights: load, memory, latency, and a
//! profile beside each step's roofline. What fails is said with everything that explains it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::{Checks, ModelFiles};
use dikast_core::engine::{ClefSequence, Model as _};
use dikast_core::graph::Step;
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::numerics::hadamard::Group;
use dikast_core::request::QuestionKind;
use dikast_core::tokens::Span;
use dikast_core::tokens::clef::{QuestionSlots, Record};
use dikast_core::{Error, Result};
use dikast_wgpu::{DeviceOptions, Int8Products, WgpuBackend, WgpuPlan, WgpuResident};
use serde_json::{Value, json};

use crate::ceilings::Ceilings;
use crate::forward::used;

const LIKE: &str = "clef-9b";
/// Tokens of a request, with 8 questions of 4 options.
const LENGTHS: [usize; 2] = [298, 1502];
const QUESTIONS: usize = 8;
const OPTIONS: usize = 4;
/// Tokens of the request whose every step is looked at before anything is timed.
const LOOKED_AT: usize = 200;
/// Repeats of a request, fewer where they take this long.
const REPEATS: usize = 12;
const LONG: Duration = Duration::from_secs(5);

pub(crate) fn measure(backend: &WgpuBackend, dir: &Path, ceilings: &Ceilings) -> Result<Value> {
    let (model, written, opened) = open(dir)?;
    let graph = model.graph();
    eprintln!(
        "{LIKE} {}: {:.2} GB written in {written:.1} s, opened in {opened:.1} s",
        model.format(),
        model.weights().total_bytes() as f64 / 1e9
    );
    for (name, value) in &backend.capabilities().details {
        eprintln!("    {name}: {value}");
    }
    let before = used();
    let start = Instant::now();
    let mut told = 0;
    let resident = said("loading", || {
        backend.load(graph, model.weights(), &mut |done, all| {
            // Uploads that stop somewhere show where.
            if 10 * done / all.max(1) > told {
                told = 10 * done / all.max(1);
                eprintln!("    {done} of {all} bytes after {:.1} s", start.elapsed().as_secs_f64());
            }
        })
    })?;
    said("waiting for the upload", || pollster::block_on(backend.settled(model.weights().total_bytes())))?;
    let load = start.elapsed().as_secs_f64();
    let sound = said("looking at every step", || look(backend, &model, &resident))?;
    let mut requests = Vec::new();
    for int8 in [Int8Products::Packed, Int8Products::WeightOnly] {
        let backend = backend.again(&DeviceOptions { int8, ..DeviceOptions::from_env() });
        for tokens in LENGTHS {
            eprintln!("INT8 products: {int8:?}");
            let mut report = said("measuring", || request(&backend, &model, &resident, ceilings, tokens))?;
            report["int8"] = json!(format!("{int8:?}"));
            report["device_used_mib"] = json!(used().zip(before).map(|(a, b)| a - b));
            requests.push(report);
        }
    }
    Ok(json!({
        "like": LIKE, "format": model.format(), "checkpoint_written_s": written, "checkpoint_opened_s": opened,
        "weight_bytes": model.weights().total_bytes(), "load_s": load, "steps_looked_at": sound,
        "requests": requests,
    }))
}

/// Says what was being done when it fails.
fn said<T>(doing: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    work().inspect_err(|error| eprintln!("FAIL {doing}: {error}\n    {error:?}"))
}

/// Writes the checkpoint where there is none, and opens it; the seconds of both.
fn open(dir: &Path) -> Result<(Clef, f64, f64)> {
    let start = Instant::now();
    if !dir.join("config.json").exists() {
        let config = dikast_synth::preset(LIKE).unwrap_or_default();
        let format = dikast_synth::Format::Int8ConvRot { group: Group::DEFAULT };
        let recipe = dikast_synth::Recipe { config, format, seed: 1, tokenizer: None, like: LIKE.to_owned() };
        dikast_synth::write(dir, &recipe, &mut |_, _| {})?;
    }
    let written = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let options = ClefOptions { checks: Checks::HEADERS, ..ClefOptions::default() };
    let model = Clef::load_with(&ModelFiles::open(dir)?, options)?;
    Ok((model, written, start.elapsed().as_secs_f64()))
}

/// A text of random tokens: a state, then questions of eight tokens whose options have two each.
fn sequence(model: &Clef, tokens: usize) -> ClefSequence {
    let mut state = 12_345_u32;
    let ordinary = (model.config().text.vocab_size as u32).min(200_000);
    let asked = QUESTIONS * (8 + 2 * OPTIONS);
    let mut at = tokens.saturating_sub(asked) as u32;
    let text = Span { start: 0, end: at };
    let mut span = |length: u32| {
        at += length;
        Span { start: at - length, end: at }
    };
    let questions = (0..QUESTIONS).map(|i| QuestionSlots {
        kind: QuestionKind::ALL[i % QuestionKind::ALL.len()],
        span: span(8),
        options: (0..OPTIONS).map(|_| span(2)).collect(),
        option_ids: (0..OPTIONS).map(|o| o.to_string()).collect(),
    });
    let questions = questions.collect();
    let ids = (0..tokens).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % ordinary
    });
    let record = Record {
        ids: ids.collect(),
        positions: (0..tokens as i32).map(|t| [t; 3]).collect(),
        state: text,
        questions,
        ..Record::default()
    };
    ClefSequence { record, media: Vec::new() }
}

fn planned(
    backend: &WgpuBackend,
    model: &Clef,
    resident: &WgpuResident,
    tokens: usize,
) -> Result<(WgpuPlan, Batch)> {
    let batch = model.pack(&[&sequence(model, tokens)])?;
    let bucket = backend.bucket(&batch.sizes);
    let budget = backend.budget(model.graph(), model.weights(), &bucket)?;
    eprintln!(
        "{tokens} tokens: weights {:.3} GiB, activations {:.3} GiB",
        gib(budget.device_weights),
        gib(budget.activations)
    );
    Ok((backend.plan(model.graph(), resident, &bucket)?, batch))
}

/// Whether every step's values are finite; the first that are not are said, with what they read.
fn look(backend: &WgpuBackend, model: &Clef, resident: &WgpuResident) -> Result<usize> {
    let graph = model.graph();
    let (mut plan, batch) = planned(backend, model, resident, LOOKED_AT)?;
    let outputs: Vec<_> = graph.steps().iter().flat_map(Step::outputs).collect();
    // Taps of all steps are gigabytes; some steps at a time.
    for some in outputs.chunks(64) {
        let names: Vec<&str> = some.iter().map(|id| graph.tensor(*id).name.as_str()).collect();
        let mut taps = Taps::named(graph, &names)?;
        pollster::block_on(backend.run(&mut plan, resident, &batch, &mut taps))?;
        for (id, name) in some.iter().zip(&names) {
            let Some(values) = taps.get(*id) else { continue };
            if let Some(at) = values.iter().position(|v| !v.is_finite()) {
                let step = graph.steps().iter().find(|s| s.outputs().contains(id));
                let message = format!(
                    "{name}: element {at} of {} is {}, {} of them not finite; made by {step:?}",
                    values.len(),
                    values[at],
                    values.iter().filter(|v| !v.is_finite()).count()
                );
                return Err(Error::Internal(message));
            }
        }
    }
    eprintln!("{} outputs of steps are finite", outputs.len());
    Ok(outputs.len())
}

fn request(
    backend: &WgpuBackend,
    model: &Clef,
    resident: &WgpuResident,
    ceilings: &Ceilings,
    tokens: usize,
) -> Result<Value> {
    let start = Instant::now();
    let (mut plan, batch) = planned(backend, model, resident, tokens)?;
    let planned = start.elapsed().as_secs_f64();
    let own = sequence(model, tokens);
    let mut times = Vec::new();
    let mut first: Option<Vec<u32>> = None;
    let mut same = true;
    let begin = Instant::now();
    while times.len() < REPEATS + 2 && (times.len() < 5 || begin.elapsed() < LONG) {
        let start = Instant::now();
        let batch = model.pack(&[&own])?;
        let logits = pollster::block_on(backend.run(&mut plan, resident, &batch, &mut Taps::none()))?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        let bits: Vec<u32> = logits.iter().map(|l| l.to_bits()).collect();
        same &= logits.iter().all(|l| l.is_finite()) && *first.get_or_insert_with(|| bits.clone()) == bits;
    }
    if !same {
        return Err(Error::Internal(format!("{tokens} tokens: other logits in another run, or not finite")));
    }
    let cold = times.remove(0);
    times.remove(0);
    times.sort_by(f64::total_cmp);
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    eprintln!(
        "{tokens} tokens: median {median:.2} ms, worst {worst:.2} ms, first {cold:.1} ms, planned in {planned:.2} s"
    );
    let profile = profile(backend, model, resident, (&mut plan, &batch), ceilings)?;
    let budget = backend.budget(model.graph(), model.weights(), &backend.bucket(&batch.sizes))?;
    Ok(json!({
        "tokens": tokens, "questions": QUESTIONS, "options": OPTIONS, "ms_median": median, "ms_worst": worst,
        "ms_first": cold, "plan_s": planned, "dispatches": plan.dispatches(), "weights_gib": gib(budget.device_weights),
        "activations_gib": gib(budget.activations), "profile": profile,
    }))
}

/// Steps of the same name in all layers, added up: milliseconds, and the least that the device could take.
fn profile(
    backend: &WgpuBackend,
    model: &Clef,
    resident: &WgpuResident,
    (plan, batch): (&mut WgpuPlan, &Batch),
    ceilings: &Ceilings,
) -> Result<Vec<Value>> {
    let graph = model.graph();
    let stored = |name: &String| model.weights().find(name).map_or(0, |view| view.bytes.len() as u64);
    let mut lines: BTreeMap<String, (usize, f64, f64)> = BTreeMap::new();
    for time in pollster::block_on(backend.profile(plan, resident, batch))? {
        let Some(step) = graph.steps().get(time.step) else { continue };
        let cost = graph.cost(step, &batch.sizes, |weight| weight.parts.iter().map(stored).sum());
        let least = (cost.flops as f64 / ceilings.portable).max(cost.bytes as f64 / ceilings.bandwidth);
        let out = step.outputs().first().map_or("", |&id| graph.tensor(id).name.as_str());
        let path: Vec<&str> = out.split('.').filter(|p| p.parse::<u32>().is_err()).collect();
        let line = lines.entry(format!("{} {}", step.name(), path.join("."))).or_default();
        line.0 += 1;
        line.1 += time.nanos as f64 / 1e6;
        line.2 += 1e3 * least;
    }
    let all: f64 = lines.values().map(|l| l.1).sum();
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    for (name, (count, ms, least)) in lines.iter().take(16) {
        eprintln!(
            "    {name:46} {count:3} × {:9.1} µs  {:5.1} % of {all:.1} ms, roofline {:5.1} %",
            ms * 1e3 / *count as f64,
            100.0 * ms / all,
            100.0 * least / ms
        );
    }
    Ok(lines
        .into_iter()
        .map(
            |(name, (count, ms, least))| json!({ "step": name, "count": count, "ms": ms, "floor_ms": least }),
        )
        .collect())
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
