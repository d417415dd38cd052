//! Many callers of one CLEF model, with text and with pictures: every answer has the bits of its request alone, and memory
//! comes back.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use dikast_core::backend::Taps;
use dikast_core::engine::{ClefSequence, Model};
use dikast_core::graph::Sizes;
use dikast_core::media::MediaLimits;
use dikast_core::models::clef::Clef;
use dikast_core::request::{DecideRequest, Question};
use dikast_core::{Error, Result};
use serde_json::json;

use crate::clef::{bits, sequence};
use crate::clef_bench::{Loaded, Measured};
use crate::report::Report;
use crate::synth::Random;

/// Rows of a batch.
const BATCH: usize = 8192;
/// Plans kept; a batch with pictures has many sizes.
const PLANS: usize = 24;

/// What is asked for.
pub struct Load<'a> {
    pub callers: usize,
    pub seconds: u64,
    /// Tokens of the longest text.
    pub longest: usize,
    /// Pictures.
    pub media: &'a Path,
}

struct Job {
    which: usize,
    answer: SyncSender<Vec<u32>>,
}

pub fn concurrent<B: Measured>(report: &mut Report, label: &str, loaded: &Loaded<B>, load: &Load<'_>) {
    let name = format!("{label} {} callers of text and pictures for {} s", load.callers, load.seconds);
    let result = run(loaded, load);
    let Some(round) = report.outcome(&name, result) else { return };
    let [first, second] = round;
    let good = second.wrong == 0 && second.answers > 0 && first.wrong == 0 && first.memory == second.memory;
    report.check(
        &name,
        good,
        &format!(
            "{} answers, {} not the bits of the request alone, {} taken back; memory {} bytes before, {} after",
            first.answers + second.answers,
            first.wrong + second.wrong,
            first.cancelled + second.cancelled,
            first.memory,
            second.memory
        ),
    );
    let rate = second.answers as f64 / second.seconds;
    report.figure(
        format!(
            "{name}: {rate:.1} requests/s in {} batches, latency median {:.1} ms, p99 {:.1} ms",
            second.batches, second.median_ms, second.p99_ms
        ),
        json!({ "callers": load.callers, "seconds": second.seconds, "answers": second.answers, "wrong": second.wrong,
            "cancelled": second.cancelled, "batches": second.batches, "requests_per_second": rate,
            "median_ms": second.median_ms, "p99_ms": second.p99_ms,
            "memory_before": first.memory, "memory_after": second.memory }),
    );
}

struct Round {
    answers: u64,
    wrong: u64,
    cancelled: u64,
    batches: u64,
    seconds: f64,
    median_ms: f64,
    p99_ms: f64,
    /// In use once the plans were gone.
    memory: u64,
}

/// The requests that callers choose from: two in three with text alone.
fn requests(model: &Clef, load: &Load<'_>) -> Result<Vec<ClefSequence>> {
    let mut random = Random::new(3);
    let mut all: Vec<ClefSequence> = (0..32)
        .map(|i| {
            let (questions, options) = (1 + random.below(8), 2 + random.below(3));
            let least = questions * (8 + 2 * options) + 8;
            let tokens = least + random.below(load.longest.saturating_sub(least).max(1));
            sequence(model, tokens, questions, options, 50 + i)
        })
        .collect();
    let mut pictures: Vec<_> = std::fs::read_dir(load.media)
        .map_err(|e| Error::Io { path: load.media.display().to_string(), message: e.to_string() })?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "png"))
        .collect();
    pictures.sort();
    for i in 0..16 {
        let mut request = DecideRequest::new(format!("Case {i}."), vec![Question::noul("q", "Is it so?")]);
        for picture in pictures.iter().cycle().skip(i).take(1 + i % 2) {
            let bytes = std::fs::read(picture)
                .map_err(|e| Error::Io { path: picture.display().to_string(), message: e.to_string() })?;
            request.images.push(bytes);
        }
        all.push(model.sequence(&request, 16_384, &MediaLimits::default())?);
    }
    Ok(all)
}

fn run<B: Measured>(loaded: &Loaded<B>, load: &Load<'_>) -> Result<[Round; 2]> {
    let model = &loaded.model;
    let requests = Arc::new(requests(model, load)?);
    let mut plans: HashMap<Sizes, B::Plan> = HashMap::new();
    let alone = requests
        .iter()
        .map(|r| Ok(forward(loaded, &mut plans, &[r])?.remove(0)))
        .collect::<Result<Vec<_>>>()?;
    drop(plans);
    let first = round(loaded, load, &requests, &alone, load.seconds.div_ceil(4))?;
    let second = round(loaded, load, &requests, &alone, load.seconds)?;
    Ok([first, second])
}

/// The bits of each request's logits.
fn forward<B: Measured>(
    loaded: &Loaded<B>,
    plans: &mut HashMap<Sizes, B::Plan>,
    requests: &[&ClefSequence],
) -> Result<Vec<Vec<u32>>> {
    let Loaded { model, backend, resident } = loaded;
    let batch = model.pack(requests)?;
    let bucket = backend.bucket(&batch.sizes);
    if !plans.contains_key(&bucket) {
        if plans.len() >= PLANS {
            plans.clear();
        }
        plans.insert(bucket, backend.plan(model.graph(), resident, &bucket)?);
    }
    let plan = plans.get_mut(&bucket).ok_or_else(|| Error::Internal("the plan is gone".to_owned()))?;
    let flat = pollster::block_on(backend.run(plan, resident, &batch, &mut Taps::none()))?;
    let mut rest = flat.as_slice();
    Ok(requests
        .iter()
        .map(|r| {
            let (own, tail) = rest.split_at(Clef::outputs(r));
            rest = tail;
            bits(own)
        })
        .collect())
}

fn round<B: Measured>(
    loaded: &Loaded<B>,
    load: &Load<'_>,
    requests: &Arc<Vec<ClefSequence>>,
    alone: &[Vec<u32>],
    seconds: u64,
) -> Result<Round> {
    let (ask, asked) = sync_channel::<Job>(4 * load.callers);
    let (stop, wrong, cancelled) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let caller = |seed: u64, ask: SyncSender<Job>| -> Vec<u64> {
        let mut random = Random::new(seed + 500);
        let mut micros = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let which = random.below(requests.len());
            let (answer, answered) = sync_channel(1);
            let start = Instant::now();
            if ask.send(Job { which, answer }).is_err() {
                break;
            }
            if random.below(8) == 0 {
                // Gone before the answer comes.
                cancelled.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let Ok(found) = answered.recv() else { break };
            micros.push(start.elapsed().as_micros() as u64);
            if found != alone[which] {
                wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
        micros
    };
    let start = Instant::now();
    let (batches, mut micros, outcome) = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..load.callers)
            .map(|i| {
                let (caller, ask) = (&caller, ask.clone());
                scope.spawn(move || caller(i as u64, ask))
            })
            .collect();
        drop(ask);
        // A device belongs to one thread: this one.
        let (batches, outcome) = serve(loaded, requests, asked, &stop, Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        let micros: Vec<u64> = callers.into_iter().filter_map(|c| c.join().ok()).flatten().collect();
        (batches, micros, outcome)
    });
    outcome?;
    micros.sort_unstable();
    let at = |percent: usize| micros.get(micros.len() * percent / 100).map_or(0.0, |us| *us as f64 / 1e3);
    Ok(Round {
        answers: micros.len() as u64,
        wrong: wrong.into_inner(),
        cancelled: cancelled.into_inner(),
        batches,
        seconds: start.elapsed().as_secs_f64(),
        median_ms: at(50),
        p99_ms: at(99),
        memory: loaded.backend.in_use()?,
    })
}

/// Packs what waits until the time is over and nobody asks any more; the plans go at the end.
#[allow(clippy::needless_pass_by_value, reason = "callers notice when the receiver is gone")]
fn serve<B: Measured>(
    loaded: &Loaded<B>,
    requests: &[ClefSequence],
    asked: Receiver<Job>,
    stop: &AtomicBool,
    time: Duration,
) -> (u64, Result<()>) {
    let mut plans = HashMap::new();
    let (start, mut batches) = (Instant::now(), 0);
    let mut waiting: Option<Job> = None;
    loop {
        if start.elapsed() > time {
            stop.store(true, Ordering::Relaxed);
        }
        let Some(first) = waiting.take().or_else(|| asked.recv().ok()) else { return (batches, Ok(())) };
        let mut rows = <Clef as Model>::load(&requests[first.which]);
        let mut jobs = vec![first];
        while let Ok(job) = asked.try_recv() {
            rows += <Clef as Model>::load(&requests[job.which]);
            if rows > BATCH {
                waiting = Some(job);
                break;
            }
            jobs.push(job);
        }
        let some: Vec<&ClefSequence> = jobs.iter().map(|j| &requests[j.which]).collect();
        match forward(loaded, &mut plans, &some) {
            Ok(answers) => {
                batches += 1;
                for (job, answer) in jobs.iter().zip(answers) {
                    // Whoever is gone needs no answer.
                    let _ = job.answer.send(answer);
                }
            }
            Err(error) => return (batches, Err(error)),
        }
    }
}
