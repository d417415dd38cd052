//! Many callers at once: every answer has the bits of the same request alone, whoever else asks or goes away.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dikast_core::backend::{Backend, Taps};
use dikast_core::checkpoint::StoredType;
use dikast_core::engine::{EngineOptions, Logits, Packer, WAITING};
use dikast_core::graph::Sizes;
use dikast_core::tokens::Sequence;
use dikast_core::{Error, Result};
use serde_json::json;

use crate::models::Synthetic;
use crate::report::Report;
use crate::synth::{self, Random};

/// Sequences that callers ask for, of 12 to 256 tokens.
const DIFFERENT: usize = 192;

/// What is to be checked.
pub struct Load {
    pub callers: usize,
    pub seconds: u64,
    /// Blocks and embedding rows of the model.
    pub shape: (usize, usize),
}

pub fn concurrent<B: Backend + 'static>(
    report: &mut Report,
    label: &str,
    open: fn() -> Result<B>,
    load: &Load,
) {
    let name = format!("{label} {} callers for {} s", load.callers, load.seconds);
    if let Some(counts) = report.outcome(&name, run(open, load)) {
        let Counts { answers, wrong, cancelled, seconds, batches, mut micros } = counts;
        micros.sort_unstable();
        let at = |percent: usize| micros.get(micros.len() * percent / 100).copied().unwrap_or(0);
        report.check(
            &name,
            wrong == 0 && answers > 0,
            &format!("{answers} answers, {wrong} not the bits of the request alone, {cancelled} taken back"),
        );
        let rate = answers as f64 / seconds;
        report.figure(
            format!(
                "{name}: {rate:.0} answers/s in {batches} batches, latency median {} us, p99 {} us",
                at(50),
                at(99)
            ),
            json!({ "callers": load.callers, "seconds": seconds, "answers": answers, "wrong": wrong, "cancelled": cancelled,
                "batches": batches, "answers_per_second": rate, "median_us": at(50), "p99_us": at(99) }),
        );
    }
}

struct Counts {
    answers: u64,
    wrong: u64,
    cancelled: u64,
    batches: u64,
    seconds: f64,
    micros: Vec<u64>,
}

fn run<B: Backend + 'static>(open: fn() -> Result<B>, load: &Load) -> Result<Counts> {
    let model = Arc::new(Synthetic::new(synth::ultra(load.shape.0, load.shape.1), StoredType::F8E4M3)?);
    let mut random = Random::new(99);
    let sequences: Vec<Arc<[Sequence]>> = (0..DIFFERENT)
        .map(|i| {
            let labels = 1 + random.below(8);
            let tokens = 2 * labels + 10 + random.below(230);
            Arc::from(vec![model.sequence(tokens, labels, i as u64)])
        })
        .collect();
    let batches = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&batches);
    let make = move || {
        let backend = open()?;
        let resident = backend.load(&model.graph, &model.weights, &mut |_, _| {})?;
        let mut plans: HashMap<Sizes, B::Plan> = HashMap::new();
        Ok(move |batch: &[&Sequence]| -> Result<Logits> {
            counted.fetch_add(1, Ordering::Relaxed);
            let packed = model.batch(batch)?;
            let bucket = backend.bucket(&packed.sizes);
            let plan = match plans.entry(bucket) {
                Entry::Occupied(made) => made.into_mut(),
                Entry::Vacant(place) => place.insert(backend.plan(&model.graph, &resident, &bucket)?),
            };
            let flat = pollster::block_on(backend.run(plan, &resident, &packed, &mut Taps::none()))?;
            let mut rest = flat.as_slice();
            Ok(batch
                .iter()
                .map(|s| {
                    let (own, tail) = rest.split_at(s.classes.len());
                    rest = tail;
                    own.to_vec()
                })
                .collect())
        })
    };
    let packer = Packer::start(make, &EngineOptions::default(), WAITING)?;
    let alone: Vec<Logits> =
        sequences.iter().map(|s| packer.submit(Arc::clone(s))?.wait()).collect::<Result<_>>()?;
    batches.store(0, Ordering::Relaxed);

    let stop = AtomicBool::new(false);
    let (answers, wrong, cancelled) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    let caller = |seed: u64| -> Result<Vec<u64>> {
        let mut random = Random::new(seed + 1000);
        let mut micros = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let which = random.below(DIFFERENT);
            let asked = Instant::now();
            let pending = packer.submit(Arc::clone(&sequences[which]))?;
            if random.below(8) == 0 {
                drop(pending);
                cancelled.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let logits = pending.wait()?;
            micros.push(asked.elapsed().as_micros() as u64);
            answers.fetch_add(1, Ordering::Relaxed);
            let bits = |l: &Logits| l.iter().flatten().map(|x| x.to_bits()).collect::<Vec<u32>>();
            if bits(&logits) != bits(&alone[which]) {
                wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(micros)
    };
    let micros = std::thread::scope(|scope| {
        let running: Vec<_> = (0..load.callers)
            .map(|i| {
                scope.spawn({
                    let caller = &caller;
                    move || caller(i as u64)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs(load.seconds));
        stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for thread in running {
            let own = thread.join().map_err(|_| Error::Internal("a caller panicked".to_owned()))?;
            all.extend(own?);
        }
        Ok::<_, Error>(all)
    })?;
    Ok(Counts {
        answers: answers.into_inner(),
        wrong: wrong.into_inner(),
        cancelled: cancelled.into_inner(),
        batches: batches.load(Ordering::Relaxed),
        seconds: start.elapsed().as_secs_f64(),
        micros,
    })
}
