//! The whole forward pass at the full size of GLiClass Multilang Ultra.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::pack;
use dikast_core::graph::Graph;
use dikast_core::models::gliclass::GliClass;
use dikast_core::tokens::{Sequence, Span};
use dikast_core::{Result, heads};
use dikast_wgpu::{WgpuBackend, WgpuPlan, WgpuResident};
use serde_json::{Value, json};

use crate::ceilings::Ceilings;
use crate::roofline;

/// Sequences and tokens of each.
const BATCHES: [(usize, usize); 7] = [(1, 64), (1, 128), (1, 192), (1, 256), (8, 128), (32, 128), (8, 256)];
/// Where all of them would take too long.
const FEW: [(usize, usize); 2] = [(1, 128), (32, 128)];
/// Labels of a sequence, three tokens each.
const LABELS: usize = 4;
/// Repeats of a batch: this long, and no more than [`MOST`].
const LONG: Duration = Duration::from_millis(600);
const MOST: usize = 50;

pub(crate) fn measure(base: &WgpuBackend, dir: &Path, ceilings: &Ceilings, quick: bool) -> Result<Value> {
    let (model, written, opened) = open(dir)?;
    eprintln!("checkpoint written in {written:.1} s, opened and checked in {opened:.1} s");
    let mut paths = Vec::new();
    for (name, options) in crate::paths() {
        let before = used();
        let backend = base.again(&options);
        if name == "cooperative" && !backend.uses_matrices() {
            continue;
        }
        let start = Instant::now();
        let resident = backend.load(model.graph(), model.weights(), &mut |_, _| {})?;
        let load = start.elapsed().as_secs_f64();
        let mut batches = Vec::new();
        let mut memory = Vec::new();
        let few = quick || name == "portable f32";
        let sizes = if few { &FEW[..] } else { &BATCHES[..] };
        for &(sequences, tokens) in sizes {
            let batch = batch(&model, sequences, tokens)?;
            let bucket = backend.bucket(&batch.sizes);
            let budget = backend.budget(model.graph(), model.weights(), &bucket)?;
            let start = Instant::now();
            let mut plan = backend.plan(model.graph(), &resident, &bucket)?;
            let planned = start.elapsed().as_secs_f64();
            let lengths = vec![tokens; sequences];
            let mut report =
                timed(&backend, &resident, &mut plan, &batch, model.graph(), &lengths, ceilings)?;
            report["sequences"] = json!(sequences);
            report["tokens_each"] = json!(tokens);
            report["plan_s"] = json!(planned);
            batches.push(report);
            memory.push(json!({
                "sequences": sequences, "tokens_each": tokens,
                "weights_mib": mib(budget.device_weights), "activations_mib": mib(budget.activations),
                "sum_gib": budget.device() as f64 / (1u64 << 30) as f64,
                "device_used_mib": used().zip(before).map(|(a, b)| a - b),
            }));
        }
        eprintln!("{name}: load {load:.2} s; memory {}", Value::from(memory.clone()));
        paths.push(json!({
            "path": name, "load_s": load, "memory": memory, "batches": batches,
        }));
    }
    Ok(json!({ "checkpoint_written_s": written, "checkpoint_opened_s": opened, "paths": paths }))
}

/// Times of the products of the whole model with every portable tile: microseconds by kind of step.
pub(crate) fn tune(base: &WgpuBackend, dir: &Path) -> Result<Value> {
    let model = open(dir)?.0;
    let resident = base.load(model.graph(), model.weights(), &mut |_, _| {})?;
    let mut all = Vec::new();
    for (sequences, tokens, seconds) in [(1, 128, 0.35), (32, 128, 0.0)] {
        let batch = batch(&model, sequences, tokens)?;
        for (path, options) in crate::paths().into_iter().skip(1) {
            for &product in crate::products::PORTABLE {
                let backend = base.again(&dikast_wgpu::DeviceOptions { product, ..options.clone() });
                let mut plan = backend.plan(model.graph(), &resident, &backend.bucket(&batch.sizes))?;
                let start = Instant::now();
                let mut run = || {
                    pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut Taps::none())).map(drop)
                };
                run()?;
                while start.elapsed().as_secs_f64() < seconds {
                    run()?;
                }
                let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
                for repeat in 0..3 {
                    let mut these: BTreeMap<String, (u64, u64)> = BTreeMap::new();
                    for (time, step) in pollster::block_on(backend.profile(&mut plan, &resident, &batch))?
                        .iter()
                        .zip(model.graph().steps())
                    {
                        let out =
                            step.outputs().first().map_or("", |&id| model.graph().tensor(id).name.as_str());
                        let path: Vec<&str> = out.split('.').filter(|p| p.parse::<u32>().is_err()).collect();
                        let entry = these.entry(path.join(".")).or_default();
                        entry.0 += time.nanos;
                        entry.1 += 1;
                    }
                    for (name, (nanos, count)) in these {
                        let mean = nanos / count;
                        let least = kinds.entry(name).or_insert(mean);
                        *least = mean.min(*least);
                    }
                    if sequences > 1 && repeat == 0 {
                        break;
                    }
                }
                all.push(json!({
                    "sequences": sequences, "path": path, "loop": format!("{product:?}"), "nanos": kinds,
                }));
            }
        }
    }
    Ok(Value::from(all))
}

/// Writes the checkpoint where there is none, and opens it; the seconds of both.
fn open(dir: &Path) -> Result<(GliClass, f64, f64)> {
    let start = Instant::now();
    if !dir.join("model.safetensors").exists() {
        let like = "gliclass-multilang-ultra";
        let config = dikast_synth::preset(like).unwrap_or_default();
        let recipe = dikast_synth::Recipe {
            config,
            format: dikast_synth::Format::Fp8,
            seed: 1,
            tokenizer: None,
            like: like.to_owned(),
        };
        dikast_synth::write(dir, &recipe, &mut |_, _| {})?;
    }
    let written = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let model = GliClass::load(&ModelFiles::open(dir)?)?;
    Ok((model, written, start.elapsed().as_secs_f64()))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 20) as f64
}

/// MiB in use on the first NVIDIA card, where its tool is there.
pub(crate) fn used() -> Option<f64> {
    let query = ["--query-gpu=memory.used", "--format=csv,noheader,nounits"];
    let output = std::process::Command::new("nvidia-smi").args(query).output().ok()?;
    String::from_utf8(output.stdout).ok()?.lines().next()?.trim().parse().ok()
}

/// Sequences of random tokens: labels first, then the text.
fn batch(model: &GliClass, sequences: usize, tokens: usize) -> Result<Batch> {
    let mut state = 12345u32;
    let all: Vec<Sequence> = (0..sequences)
        .map(|_| {
            let ids = (0..tokens)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    5 + (state >> 8) % 200_000
                })
                .collect();
            let classes = (0..LABELS as u32).map(|l| Span { start: 3 * l, end: 3 * l + 3 }).collect();
            let text = Span { start: 3 * LABELS as u32, end: tokens as u32 };
            Sequence {
                ids,
                attended: tokens as u32,
                segments: vec![],
                classes,
                text,
                text_padding: 0,
                dropped_text_tokens: 0,
            }
        })
        .collect();
    let all: Vec<&Sequence> = all.iter().collect();
    pack(model.graph(), &all, heads::selects_text_rows(model.config()))
}

fn timed(
    backend: &WgpuBackend,
    resident: &WgpuResident,
    plan: &mut WgpuPlan,
    batch: &Batch,
    graph: &Graph,
    lengths: &[usize],
    ceilings: &Ceilings,
) -> Result<Value> {
    let mut times = Vec::new();
    let begin = Instant::now();
    let mut sum = 0.0;
    while times.len() < 5 || (begin.elapsed() < LONG && times.len() < MOST) {
        let start = Instant::now();
        let logits = pollster::block_on(backend.run(plan, resident, batch, &mut Taps::none()))?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        sum = logits.iter().map(|l| f64::from(*l)).sum::<f64>();
    }
    let cold = times[0];
    times.remove(0);
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let flops: f64 = graph.steps().iter().map(|s| roofline::flops(graph, s, &batch.sizes, lengths)).sum();

    // Steps of the same name in all blocks, added up; the median of three profiles.
    let mut kinds: BTreeMap<String, (usize, Vec<f64>, f64)> = BTreeMap::new();
    for _ in 0..3 {
        let mut these: BTreeMap<String, (usize, f64, f64)> = BTreeMap::new();
        for (time, step) in
            pollster::block_on(backend.profile(plan, resident, batch))?.iter().zip(graph.steps())
        {
            let out = step.outputs().first().map_or("", |&id| graph.tensor(id).name.as_str());
            let path: Vec<&str> = out.split('.').filter(|p| p.parse::<u32>().is_err()).collect();
            let name = format!("{} {}", step.name(), path.join("."));
            let entry = these.entry(name).or_default();
            entry.0 += 1;
            entry.1 += time.nanos as f64 / 1e6;
            entry.2 +=
                1e3 * roofline::floor(graph, step, &batch.sizes, lengths, backend.uses_matrices(), ceilings);
        }
        for (name, (count, ms, floor)) in these {
            let entry = kinds.entry(name).or_default();
            entry.0 = count;
            entry.1.push(ms);
            entry.2 = floor;
        }
    }
    let mut profile: Vec<(f64, Value, String)> = kinds
        .into_iter()
        .map(|(name, (count, mut all, floor))| {
            all.sort_by(f64::total_cmp);
            let ms = all[all.len() / 2];
            let line = format!(
                "{name:55} {count:3} × {:8.1} µs  {:5.1} %",
                ms * 1e3 / count as f64,
                100.0 * floor / ms
            );
            (ms, json!({ "step": name, "count": count, "ms": ms, "floor_ms": floor }), line)
        })
        .collect();
    profile.sort_by(|a, b| b.0.total_cmp(&a.0));
    let on_device: f64 = profile.iter().map(|p| p.0).sum();
    let tokens = batch.sizes.tokens;
    eprintln!(
        "{} × {tokens} tokens: {median:.2} ms (first {cold:.1}), steps {on_device:.2} ms, {:.1} TFLOP/s, logits {sum:.3}",
        lengths.len(),
        flops / median / 1e9
    );
    for (_, _, line) in profile.iter().take(14) {
        eprintln!("    {line}");
    }
    Ok(json!({
        "ms_median": median, "ms_least": times[0], "ms_first": cold, "repeats": times.len(),
        "steps_ms": on_device, "gflop": flops / 1e9, "tflops": flops / median / 1e9,
        "requests_per_s": lengths.len() as f64 / median * 1e3, "dispatches": plan.dispatches(),
        "profile": profile.into_iter().map(|p| p.1).collect::<Vec<_>>(),
    }))
}
