//! Times and memory of a whole CLEF checkpoint: loading, requests, steps beside their rooflines, packed batches.

use std::path::Path;
use std::time::Instant;

use dikast_core::backend::{Backend, Batch, StepTime, Taps};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Model as _};
use dikast_core::graph::{Graph, Sizes};
use dikast_core::media::MediaLimits;
use dikast_core::models::clef::Clef;
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::request::{DecideRequest, Question};
use dikast_core::{Error, Result};
use dikast_cuda::CudaBackend;
use dikast_synth::Format;
use dikast_tests::clef::softmax;
use serde_json::{Value, json};

use crate::clef::{bits, int8_format, model, sequence, wide_layers};
use crate::report::Report;

/// What an H200 reaches: bytes a second of a copy, INT8 and BF16 operations a second by its data sheet.
const COPY: f64 = 4.2e12;
const INT8: f64 = 1.979e15;
const BF16: f64 = 0.989e15;
/// Questions of a request, and options of each.
const QUESTIONS: (usize, usize) = (8, 4);

/// A backend that can be looked at from outside.
pub trait Measured: Backend {
    /// Bytes of device memory in use by everyone.
    fn in_use(&self) -> Result<u64>;
    /// Bytes of it that weights and plans take.
    fn own(&self, resident: &Self::Resident, plans: &[Self::Plan]) -> u64;
    /// Median microseconds of the forward alone.
    fn forward_us(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
        repeats: usize,
    ) -> Result<f64>;
    /// Times of some steps.
    fn steps(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<StepTime>>;
    /// Bytes of an element of each tensor.
    fn element_bytes(graph: &Graph) -> Vec<usize>;
}

impl Measured for CudaBackend {
    fn in_use(&self) -> Result<u64> {
        self.memory_in_use()
    }

    fn own(&self, resident: &Self::Resident, plans: &[Self::Plan]) -> u64 {
        self.own_bytes(resident, plans)
    }

    fn forward_us(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
        repeats: usize,
    ) -> Result<f64> {
        self.time_forward(plan, resident, batch, repeats)
    }

    fn steps(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<StepTime>> {
        self.time_some_steps(plan, resident, batch, wanted)
    }

    fn element_bytes(graph: &Graph) -> Vec<usize> {
        Self::element_bytes(graph)
    }
}

/// To test this tool itself.
impl Measured for CpuBackend {
    fn in_use(&self) -> Result<u64> {
        Ok(0)
    }

    fn own(&self, _: &Self::Resident, _: &[Self::Plan]) -> u64 {
        0
    }

    fn forward_us(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
        _: usize,
    ) -> Result<f64> {
        let start = Instant::now();
        pollster::block_on(self.run(plan, resident, batch, &mut Taps::none()))?;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    }

    fn steps(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<StepTime>> {
        let times = pollster::block_on(self.profile(plan, resident, batch))?;
        Ok(times.into_iter().filter(|t| wanted(t.step)).collect())
    }

    fn element_bytes(graph: &Graph) -> Vec<usize> {
        graph.tensors().iter().map(|t| t.dtype.bytes()).collect()
    }
}

/// What is measured.
pub struct Plan {
    /// Tokens of single requests.
    pub lengths: Vec<usize>,
    /// Tokens of the requests that are packed, and how many of them.
    pub packed: (usize, Vec<usize>),
    /// Repeats of a request.
    pub repeats: usize,
    /// Lengths of which steps are timed.
    pub profiled: Vec<usize>,
}

impl Plan {
    /// The issue's.
    pub fn full() -> Self {
        Self {
            lengths: vec![298, 1502, 2270],
            packed: (1502, vec![1, 2, 4, 8, 16, 32]),
            repeats: 50,
            profiled: vec![298, 1502],
        }
    }

    /// To test this tool itself.
    pub fn small() -> Self {
        Self { lengths: vec![298], packed: (150, vec![1, 2, 3]), repeats: 2, profiled: vec![298] }
    }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Device memory of processes in MiB as the driver's tool says it: of this process where it is listed, else of all that
/// are.
pub fn nvml_mib() -> Option<u64> {
    let asked = std::process::Command::new("nvidia-smi")
        .args(["--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"])
        .output()
        .ok()?;
    let text = String::from_utf8(asked.stdout).ok()?;
    let lines: Vec<(u32, u64)> = text
        .lines()
        .filter_map(|line| {
            let (pid, mib) = line.split_once(',')?;
            Some((pid.trim().parse().ok()?, mib.trim().parse().ok()?))
        })
        .collect();
    let own: u64 = lines.iter().filter(|(pid, _)| *pid == std::process::id()).map(|(_, mib)| mib).sum();
    if own > 0 { Some(own) } else { (!lines.is_empty()).then(|| lines.iter().map(|(_, mib)| mib).sum()) }
}

/// A model on a device, and what it takes there.
pub struct Loaded<B: Backend> {
    pub model: Clef,
    pub backend: B,
    pub resident: B::Resident,
}

/// Loads a checkpoint, with its time and memory.
pub fn load<B: Measured>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    folder: &Path,
    vision: bool,
) -> Option<Loaded<B>> {
    let result = (|| {
        let start = Instant::now();
        let model = model(folder, Int8Mode::Standard, vision)?;
        let opened = start.elapsed().as_secs_f64();
        let backend = open()?;
        let before = backend.in_use()?;
        let start = Instant::now();
        let resident = backend.load(model.graph(), model.weights(), &mut |_, _| {})?;
        let seconds = start.elapsed().as_secs_f64();
        let (used, own) = (backend.in_use()?, backend.own(&resident, &[]));
        Ok((Loaded { model, backend, resident }, opened, before, seconds, used, own))
    })();
    let (loaded, opened, before, seconds, used, own) = report.outcome(&format!("{label} load"), result)?;
    let bytes = loaded.model.weights().total_bytes();
    let rate = bytes as f64 / seconds / 1e9;
    let nvml = nvml_mib();
    report.figure(
        format!(
            "{label} {}: {:.2} GB of weights checked in {opened:.2} s, loaded in {seconds:.2} s ({rate:.2} GB/s); device memory {:.3} GiB in use ({:.3} before), own {:.3} GiB, NVML {nvml:?} MiB",
            loaded.model.format(),
            bytes as f64 / 1e9,
            gib(used),
            gib(before),
            gib(own)
        ),
        json!({ "load": label, "format": loaded.model.format(), "weight_bytes": bytes, "opened_s": opened,
            "load_s": seconds, "gb_per_s": rate, "in_use_gib": gib(used), "before_gib": gib(before),
            "own_gib": gib(own), "nvml_mib": nvml }),
    );
    Some(loaded)
}

/// Everything of a checkpoint on one device.
pub fn all<B: Measured>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    folder: &Path,
    plan: &Plan,
) -> Option<Loaded<B>> {
    let loaded = load(report, label, open, folder, true)?;
    for &tokens in &plan.lengths {
        let profiled = plan.profiled.contains(&tokens);
        let result = request(report, label, &loaded, tokens, plan.repeats, profiled);
        report.outcome(&format!("{label} request of {tokens} tokens"), result);
    }
    let result = packed(report, label, &loaded, plan.packed.0, &plan.packed.1);
    report.outcome(&format!("{label} packed batches"), result);
    Some(loaded)
}

/// Single requests without pictures, with the vision tower or without: the memory that a process needs for them, their times.
pub fn singles<B: Measured>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    folder: &Path,
    vision: bool,
    lengths: &[usize],
) -> Option<Loaded<B>> {
    let label = &format!("{label} {}", if vision { "with its vision tower" } else { "text alone" });
    let loaded = load(report, label, open, folder, vision)?;
    let label = &format!("{label} {}", loaded.model.format());
    for &tokens in lengths {
        let result = request(report, label, &loaded, tokens, 20, false);
        report.outcome(&format!("{label} request of {tokens} tokens"), result);
    }
    Some(loaded)
}

/// A question about a picture, twice: a lazy vision tower comes with the first. The bits of both, for other processes to
/// compare.
pub fn picture<B: Measured>(report: &mut Report, label: &str, loaded: &Loaded<B>, media: &Path) {
    let name = format!("{label} question about a picture");
    let result = (|| {
        let Loaded { model, backend, resident } = loaded;
        let mut pictures: Vec<_> = std::fs::read_dir(media)
            .map_err(|e| Error::Io { path: media.display().to_string(), message: e.to_string() })?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "png"))
            .collect();
        pictures.sort();
        let first = pictures.first().ok_or_else(|| Error::Internal(format!("no picture in {media:?}")))?;
        let bytes = std::fs::read(first)
            .map_err(|e| Error::Io { path: first.display().to_string(), message: e.to_string() })?;
        let mut asked = DecideRequest::new("Look.", vec![Question::noul("q", "Is it so?")]);
        asked.images.push(bytes);
        let own = model.sequence(&asked, 16_384, &MediaLimits::default())?;
        let batch = model.pack(&[&own])?;
        let before = backend.in_use()?;
        let ask = || -> Result<(f64, Vec<u32>, u64)> {
            let start = Instant::now();
            let mut plan = backend.plan(model.graph(), resident, &backend.bucket(&batch.sizes))?;
            let logits = pollster::block_on(backend.run(&mut plan, resident, &batch, &mut Taps::none()))?;
            let ms = start.elapsed().as_secs_f64() * 1e3;
            drop(plan);
            Ok((ms, bits(&logits), backend.in_use()?))
        };
        Ok((before, ask()?, ask()?))
    })();
    let Some((before, first, second)) = report.outcome(&name, result) else { return };
    let good = first.1 == second.1 && first.2 == second.2;
    report.check(&name, good, &format!("the same twice, {} bytes in use after both", first.2));
    report.figure(
        format!(
            "{name}: first {:.1} ms, second {:.1} ms with their plans; memory {:.3} GiB in use before, {:.3} after; bits {:08x?}",
            first.0,
            second.0,
            gib(before),
            gib(first.2),
            first.1
        ),
        json!({ "picture": label, "first_ms": first.0, "second_ms": second.0, "before_gib": gib(before),
            "after_gib": gib(first.2), "bits": first.1 }),
    );
}

/// A request alone: from its tokens to probabilities.
fn request<B: Measured>(
    report: &mut Report,
    label: &str,
    loaded: &Loaded<B>,
    tokens: usize,
    repeats: usize,
    profiled: bool,
) -> Result<()> {
    let Loaded { model, backend, resident } = loaded;
    let own = sequence(model, tokens, QUESTIONS.0, QUESTIONS.1, 1);
    let batch = model.pack(&[&own])?;
    let start = Instant::now();
    let mut plan = backend.plan(model.graph(), resident, &backend.bucket(&batch.sizes))?;
    let planned = start.elapsed().as_secs_f64();
    let ask = |plan: &mut B::Plan| -> Result<Vec<Vec<f64>>> {
        let batch = model.pack(&[&own])?;
        let flat = pollster::block_on(backend.run(plan, resident, &batch, &mut Taps::none()))?;
        Ok(own.by_question(&flat).iter().map(|row| softmax(row)).collect())
    };
    let first = ask(&mut plan)?;
    let sound = first.iter().all(|row| row.len() == QUESTIONS.1 && row.iter().all(|p| p.is_finite()));
    report.check(
        &format!("{label} probabilities of {tokens} tokens"),
        sound && first.len() == QUESTIONS.0,
        &format!("{:.4?}", first.first()),
    );
    let mut times = Vec::with_capacity(repeats);
    let mut same = true;
    for i in 0..repeats + 3 {
        let start = Instant::now();
        same &= ask(&mut plan)? == first;
        if i >= 3 || repeats < 3 {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let device = backend.forward_us(&mut plan, resident, &batch, repeats.min(20))? / 1e3;
    let steps = model.graph().steps().len();
    let (used, nvml) = (backend.in_use()?, nvml_mib());
    let table = if profiled { rooflines(loaded, &mut plan, &batch)? } else { Vec::new() };
    let own_bytes = backend.own(resident, std::slice::from_ref(&plan));
    report.check(&format!("{label} {tokens} tokens again"), same, "the same probabilities every time");
    report.figure(
        format!(
            "{label} request of {tokens} tokens: median {median:.2} ms, p99 {p99:.2} ms, device alone {device:.2} ms, {steps} steps, planned in {planned:.2} s; memory {:.3} GiB in use, own {:.3}, NVML {nvml:?} MiB",
            gib(used),
            gib(own_bytes)
        ),
        json!({ "request": label, "tokens": tokens, "questions": QUESTIONS.0, "options": QUESTIONS.1,
            "median_ms": median, "p99_ms": p99, "device_ms": device, "steps": steps, "plan_s": planned,
            "in_use_gib": gib(used), "own_gib": gib(own_bytes), "nvml_mib": nvml }),
    );
    print_table(report, label, tokens, &table);
    Ok(())
}

/// Steps of one kind and name.
struct Line {
    kind: &'static str,
    name: String,
    count: usize,
    timed: usize,
    /// Microseconds of all of them.
    us: f64,
    predicted_us: f64,
    flops: f64,
    bytes: f64,
}

/// Steps of the first period of layers, and those that belong to no layer, timed one by one; steps of the same name count as
/// often as there are layers.
fn rooflines<B: Measured>(loaded: &Loaded<B>, plan: &mut B::Plan, batch: &Batch) -> Result<Vec<Line>> {
    const PERIOD: usize = 4;
    let Loaded { model, backend, resident } = loaded;
    let graph = model.graph();
    let bytes = B::element_bytes(graph);
    let named = |index: usize| {
        let step = &graph.steps()[index];
        step.outputs().first().map_or_else(String::new, |id| graph.tensor(*id).name.clone())
    };
    let wanted = |index: usize| layer_of(&named(index)).is_none_or(|layer| layer < PERIOD);
    let times = backend.steps(plan, resident, batch, &wanted)?;
    let mut lines: Vec<Line> = Vec::new();
    for (index, step) in graph.steps().iter().enumerate() {
        let (kind, name) = (step.name(), pattern(&named(index)));
        let place = lines.iter().position(|l| l.kind == kind && l.name == name).unwrap_or_else(|| {
            lines.push(Line {
                kind,
                name,
                count: 0,
                timed: 0,
                us: 0.0,
                predicted_us: 0.0,
                flops: 0.0,
                bytes: 0.0,
            });
            lines.len() - 1
        });
        let line = &mut lines[place];
        line.count += 1;
        let mut own = times.iter().filter(|t| t.step == index).peekable();
        if own.peek().is_some() {
            line.timed += 1;
            line.us += own.map(|t| t.nanos as f64 / 1e3).sum::<f64>();
        }
        let (flops, moved) = cost(model, graph, index, &batch.sizes, &bytes);
        let peak = if kind.starts_with("Int8") { INT8 } else { BF16 };
        line.flops += flops;
        line.bytes += moved;
        line.predicted_us += (moved / COPY).max(flops / peak) * 1e6;
    }
    for line in &mut lines {
        if line.timed > 0 {
            line.us *= line.count as f64 / line.timed as f64;
        }
    }
    lines.sort_by(|a, b| b.us.total_cmp(&a.us));
    Ok(lines)
}

/// Operations and bytes of a step, activations as the device keeps them.
fn cost(model: &Clef, graph: &Graph, index: usize, sizes: &Sizes, bytes: &[usize]) -> (f64, f64) {
    let step = &graph.steps()[index];
    let stored = |name: &String| model.weights().find(name).map_or(0, |view| view.bytes.len() as u64);
    let cost = graph.cost(step, sizes, |weight| weight.parts.iter().map(stored).sum());
    let mut seen = step.reads();
    seen.extend(step.outputs());
    seen.sort_unstable();
    seen.dedup();
    let saved: u64 = seen
        .iter()
        .map(|id| (graph.tensor(*id).dtype.bytes() - bytes[id.index()]) as u64 * graph.len(*id, sizes) as u64)
        .sum();
    (cost.flops as f64, cost.bytes.saturating_sub(saved) as f64)
}

/// The number of the layer that a tensor belongs to.
fn layer_of(name: &str) -> Option<usize> {
    name.strip_prefix("layer.")?.split('.').next()?.parse().ok()
}

/// A name without its numbers.
fn pattern(name: &str) -> String {
    let parts = name.split('.').map(|p| if p.bytes().all(|b| b.is_ascii_digit()) { "*" } else { p });
    parts.collect::<Vec<_>>().join(".")
}

fn print_table(report: &mut Report, label: &str, tokens: usize, lines: &[Line]) {
    let all: f64 = lines.iter().map(|l| l.us).sum();
    let predicted: f64 = lines.iter().map(|l| l.predicted_us).sum();
    let mut rows: Vec<Value> = Vec::new();
    for line in lines.iter().filter(|l| l.us > 0.0) {
        let share = line.us / all.max(1e-9);
        if share >= 0.005 {
            println!(
                "   {label} {tokens:5} {:18} {:24} x{:3} {:9.1} us {:5.1} %  roofline {:8.1} us ({:4.0} %)  {:6.0} T/s {:5.2} TB/s",
                line.kind,
                line.name,
                line.count,
                line.us,
                100.0 * share,
                line.predicted_us,
                100.0 * line.predicted_us / line.us,
                line.flops / line.us / 1e6,
                line.bytes / line.us / 1e6
            );
        }
        rows.push(json!({ "step": line.kind, "name": line.name, "count": line.count, "us": line.us, "share": share,
            "roofline_us": line.predicted_us, "tera_ops": line.flops / line.us / 1e6, "tb_s": line.bytes / line.us / 1e6 }));
    }
    if !rows.is_empty() {
        report.figure(
            format!("{label} steps of {tokens} tokens one by one: {:.2} ms, rooflines {:.2} ms", all / 1e3, predicted / 1e3),
            json!({ "profile": label, "tokens": tokens, "sum_us": all, "roofline_us": predicted, "steps": rows }),
        );
    }
}

/// Different requests of one length together, each with the bits it has alone.
fn packed<B: Measured>(
    report: &mut Report,
    label: &str,
    loaded: &Loaded<B>,
    tokens: usize,
    counts: &[usize],
) -> Result<()> {
    let Loaded { model, backend, resident } = loaded;
    let most = counts.iter().copied().max().unwrap_or(1);
    let sequences: Vec<ClefSequence> =
        (0..most).map(|i| sequence(model, tokens, QUESTIONS.0, QUESTIONS.1, 100 + i as u64)).collect();
    let mut alone: Vec<Vec<u32>> = Vec::new();
    {
        let batch = model.pack(&[&sequences[0]])?;
        let mut plan = backend.plan(model.graph(), resident, &backend.bucket(&batch.sizes))?;
        for one in &sequences {
            let batch = model.pack(&[one])?;
            let flat = pollster::block_on(backend.run(&mut plan, resident, &batch, &mut Taps::none()))?;
            alone.push(bits(&flat));
        }
    }
    for &count in counts {
        let some: Vec<&ClefSequence> = sequences[..count].iter().collect();
        let batch = model.pack(&some)?;
        let start = Instant::now();
        let mut plan = backend.plan(model.graph(), resident, &backend.bucket(&batch.sizes))?;
        let planned = start.elapsed().as_secs_f64();
        let mut times = Vec::new();
        let mut same = true;
        for i in 0..if count > 8 { 4 } else { 8 } {
            let start = Instant::now();
            let batch = model.pack(&some)?;
            let flat = pollster::block_on(backend.run(&mut plan, resident, &batch, &mut Taps::none()))?;
            if i > 0 {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            let own = QUESTIONS.0 * QUESTIONS.1;
            same &= flat.chunks(own).zip(&alone).all(|(found, want)| bits(found) == *want);
            same &= flat.len() == own * count;
        }
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        let rate = (count * QUESTIONS.0) as f64 / (median / 1e3);
        let (used, own, nvml) =
            (backend.in_use()?, backend.own(resident, std::slice::from_ref(&plan)), nvml_mib());
        report.check(
            &format!("{label} {count} requests of {tokens} tokens together"),
            same,
            "each with its bits alone",
        );
        report.figure(
            format!(
                "{label} batch {count:2} x {tokens}: {median:8.2} ms, {rate:6.1} decisions/s ({:.2} requests/s), planned in {planned:.2} s; memory {:.3} GiB in use, own {:.3}, NVML {nvml:?} MiB; bits as alone {same}",
                count as f64 / (median / 1e3),
                gib(used),
                gib(own)
            ),
            json!({ "batch": label, "requests": count, "tokens": tokens, "median_ms": median, "decisions_per_second": rate,
                "plan_s": planned, "in_use_gib": gib(used), "own_gib": gib(own), "nvml_mib": nvml, "bits_as_alone": same }),
        );
    }
    Ok(())
}

/// Eight layers of the full size in INT8 and in BF16 at the same lengths, by the same engine: what INT8 brings. Both are made
/// here; the whole model is eight times as many layers.
pub fn formats<B: Measured>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    (work, lender): (&Path, &Path),
    kinds: &[&str],
    lengths: &[usize],
) {
    let result = (|| {
        let mut times = Vec::new();
        for format in [int8_format(), Format::Bf16] {
            let start = Instant::now();
            let folder = wide_layers(work, lender, kinds, true, format)?;
            println!(
                "{label} {} layers in {} made in {:.1} s",
                kinds.len(),
                format.name(),
                start.elapsed().as_secs_f64()
            );
            let model = model(&folder, Int8Mode::Standard, true)?;
            let backend = open()?;
            let resident = backend.load(model.graph(), model.weights(), &mut |_, _| {})?;
            for &tokens in lengths {
                let own = sequence(&model, tokens, QUESTIONS.0, QUESTIONS.1, 1);
                let batch = model.pack(&[&own])?;
                let mut plan = backend.plan(model.graph(), &resident, &backend.bucket(&batch.sizes))?;
                pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut Taps::none()))?;
                times.push((
                    format.name(),
                    tokens,
                    backend.forward_us(&mut plan, &resident, &batch, 20)? / 1e3,
                ));
            }
            drop(resident);
            std::fs::remove_dir_all(&folder)
                .map_err(|e| Error::Io { path: folder.display().to_string(), message: e.to_string() })?;
        }
        Ok(times)
    })();
    let Some(times) = report.outcome(&format!("{label} INT8 and BF16"), result) else { return };
    for &tokens in lengths {
        let of = |name: &str| times.iter().find(|t| t.0 == name && t.1 == tokens).map_or(0.0, |t| t.2);
        let (int8, bf16) = (of("int8-convrot"), of("bf16"));
        report.figure(
            format!(
                "{label} {} layers and the head, {tokens} tokens: INT8 {int8:.3} ms, BF16 {bf16:.3} ms ({:.2} times)",
                kinds.len(),
                bf16 / int8
            ),
            json!({ "formats": label, "layers": kinds.len(), "tokens": tokens, "int8_ms": int8, "bf16_ms": bf16 }),
        );
    }
}
