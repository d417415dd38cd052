//! Which switch makes answers of many callers differ.
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::StoredType;
use dikast_core::engine::{EngineOptions, Logits, Packer, WAITING};
use dikast_core::graph::{DType, Sizes, Step};
use dikast_core::tokens::Sequence;
use dikast_core::{Error, Result};
use dikast_cuda::{CudaBackend, CudaOptions, CudaPlan, CudaResident, LargeTiles, trial};

use crate::models::Synthetic;
use crate::synth::{self, Random};

const DIFFERENT: usize = 192;

pub fn all(seconds: u64) {
    let base = CudaOptions::default;
    let variants: Vec<(&str, CudaOptions, bool, bool, usize)> = vec![
        ("base", base(), false, false, 64),
        ("not early", CudaOptions { early: false, ..base() }, false, false, 64),
        ("no few", CudaOptions { few: false, ..base() }, false, false, 64),
        ("apart", base(), false, true, 64),
        ("serial", base(), true, false, 64),
        ("warpgroups, no few", CudaOptions { few: false, warpgroups: true, ..base() }, false, false, 64),
        ("split, no few", CudaOptions { few: false, split_rows: true, ..base() }, false, false, 64),
        ("base, 6 callers", base(), false, false, 6),
        ("copied", CudaOptions { large_tiles: LargeTiles::Copied, ..base() }, false, false, 64),
    ];
    for (name, options, serial, apart, callers) in variants {
        trial::SERIAL.store(serial, Ordering::Relaxed);
        trial::APART.store(apart, Ordering::Relaxed);
        println!("== {name}");
        if let Err(e) = run(options, seconds, callers) {
            println!("{name}: {e}");
        }
    }
}

fn bits(l: &[Vec<f32>]) -> Vec<u32> {
    l.iter().flatten().map(|x| x.to_bits()).collect()
}

fn split(flat: &[f32], batch: &[&Sequence]) -> Logits {
    let mut rest = flat;
    batch
        .iter()
        .map(|s| {
            let (own, tail) = rest.split_at(s.classes.len());
            rest = tail;
            own.to_vec()
        })
        .collect()
}

/// Where a sequence's rows differ from those it has alone, step by step.
fn localise(
    model: &Synthetic,
    backend: &CudaBackend,
    resident: &CudaResident,
    batch: &[&Sequence],
    packed: &Batch,
    at: usize,
) -> Result<()> {
    let mut together = Taps::all(&model.graph);
    let mut plan = backend.plan(&model.graph, resident, &backend.bucket(&packed.sizes))?;
    pollster::block_on(backend.run(&mut plan, resident, packed, &mut together))?;
    let single = model.batch(&[batch[at]])?;
    let mut alone = Taps::all(&model.graph);
    let mut plan = backend.plan(&model.graph, resident, &backend.bucket(&single.sizes))?;
    pollster::block_on(backend.run(&mut plan, resident, &single, &mut alone))?;
    let first: usize = batch[..at].iter().map(|s| s.ids.len()).sum();
    let rows = batch[at].ids.len();
    let mut said = 0;
    for step in model.graph.steps() {
        for out in step.outputs() {
            let tensor = model.graph.tensor(out);
            let (Some(a), Some(b)) = (alone.get(out), together.get(out)) else { continue };
            if a.is_empty() || a.len() % rows != 0 || b.len() % packed.sizes.tokens != 0 {
                continue;
            }
            let width = a.len() / rows;
            if b.len() / packed.sizes.tokens != width {
                continue;
            }
            let part = &b[first * width..(first + rows) * width];
            let wrong: Vec<usize> = (0..a.len()).filter(|&i| a[i].to_bits() != part[i].to_bits()).collect();
            if let Some(&w) = wrong.first() {
                said += 1;
                if said <= 6 {
                    println!(
                        "    {} {:?}: {} of {} differ, first row {} (of {rows}) column {}: {} for {}",
                        tensor.name, tensor.dtype, wrong.len(), a.len(), w / width, w % width, part[w], a[w]
                    );
                }
            }
        }
    }
    let _ = (DType::F32, std::mem::size_of::<Step>());
    println!("    tapped: {said} tensors of its rows differ");
    Ok(())
}

fn run(options: CudaOptions, seconds: u64, callers: usize) -> Result<()> {
    let model = Arc::new(Synthetic::new(synth::ultra(24, 32_768), StoredType::F8E4M3)?);
    let mut random = Random::new(99);
    let sequences: Vec<Arc<[Sequence]>> = (0..DIFFERENT)
        .map(|i| {
            let labels = 1 + random.below(8);
            let tokens = 2 * labels + 10 + random.below(230);
            Arc::from(vec![model.sequence(tokens, labels, i as u64)])
        })
        .collect();
    let which: HashMap<Vec<u32>, usize> =
        sequences.iter().enumerate().map(|(i, s)| (s[0].ids.clone(), i)).collect();
    let alone: Arc<OnceLock<Vec<Logits>>> = Arc::new(OnceLock::new());
    let known = Arc::clone(&alone);
    let begun = Instant::now();
    let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)));
    let counting = Arc::clone(&counts);
    let make = move || {
        let backend = CudaBackend::open(options)?;
        let resident = backend.load(&model.graph, &model.weights, &mut |_, _| {})?;
        let mut plans: HashMap<Sizes, (CudaPlan, u64)> = HashMap::new();
        let mut buckets: HashMap<usize, u64> = HashMap::new();
        let mut events = 0;
        Ok(move |batch: &[&Sequence]| -> Result<Logits> {
            let packed = model.batch(batch)?;
            let bucket = backend.bucket(&packed.sizes);
            let plan = match plans.entry(bucket) {
                Entry::Occupied(made) => made.into_mut(),
                Entry::Vacant(place) => place.insert((backend.plan(&model.graph, &resident, &bucket)?, 0)),
            };
            plan.1 += 1;
            let flat = pollster::block_on(backend.run(&mut plan.0, &resident, &packed, &mut Taps::none()))?;
            let answers = split(&flat, batch);
            if let Some(alone) = known.get() {
                counting.0.fetch_add(1, Ordering::Relaxed);
                counting.1.fetch_add(batch.len() as u64, Ordering::Relaxed);
                *buckets.entry(bucket.tokens).or_default() += 1;
                let wrong = |answers: &Logits| -> Vec<usize> {
                    (0..batch.len())
                        .filter(|&i| {
                            let own = &alone[which[&batch[i].ids]][0];
                            own.iter().map(|x| x.to_bits()).ne(answers[i].iter().map(|x| x.to_bits()))
                        })
                        .collect()
                };
                let bad = wrong(&answers);
                if !bad.is_empty() {
                    counting.2.fetch_add(bad.len() as u64, Ordering::Relaxed);
                    events += 1;
                    if events <= 12 {
                        let inputs = backend.wrong_inputs(&plan.0, &resident, &packed)?;
                        println!(
                            "  after {:.2} s: {} of {} wrong, bucket {} tokens {} labels (real {} / {}), run {} of its plan, wrong input bytes {:?}",
                            begun.elapsed().as_secs_f64(), bad.len(), batch.len(), bucket.tokens, bucket.labels,
                            packed.sizes.tokens, packed.sizes.labels, plan.1, inputs.iter().filter(|n| **n > 0).collect::<Vec<_>>()
                        );
                        for &i in bad.iter().take(4) {
                            let own = &alone[which[&batch[i].ids]][0];
                            let far = own.iter().zip(&answers[i]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                            println!(
                                "    place {i} sequence {} of {} tokens, {} labels, first token {}: {:.2e} off, {:?} for {:?}",
                                which[&batch[i].ids], batch[i].ids.len(), batch[i].classes.len(),
                                batch[..i].iter().map(|s| s.ids.len()).sum::<usize>(), far,
                                &answers[i][..own.len().min(4)], &own[..own.len().min(4)]
                            );
                        }
                        let mut again = Vec::new();
                        for _ in 0..5 {
                            let flat = pollster::block_on(backend.run(&mut plan.0, &resident, &packed, &mut Taps::none()))?;
                            again.push(wrong(&split(&flat, batch)).len());
                        }
                        println!("    again: {again:?} wrong");
                        if again.iter().any(|n| *n > 0) && events <= 3 {
                            localise(&model, &backend, &resident, batch, &packed, bad[0])?;
                        }
                    }
                }
            }
            Ok(answers)
        })
    };
    let packer = Packer::start(make, &EngineOptions::default(), WAITING)?;
    let answers: Vec<Logits> =
        sequences.iter().map(|s| packer.submit(Arc::clone(s))?.wait()).collect::<Result<_>>()?;
    let again: Vec<Logits> =
        sequences.iter().map(|s| packer.submit(Arc::clone(s))?.wait()).collect::<Result<_>>()?;
    println!("  alone twice: {} differ", answers.iter().zip(&again).filter(|(a, b)| bits(a) != bits(b)).count());
    let _ = alone.set(answers);
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let caller = |seed: u64| -> Result<()> {
        let mut random = Random::new(seed + 1000);
        while !stop.load(Ordering::Relaxed) {
            let pending = packer.submit(Arc::clone(&sequences[random.below(DIFFERENT)]))?;
            if random.below(8) == 0 {
                drop(pending);
                continue;
            }
            pending.wait()?;
            if callers < 16 {
                std::thread::sleep(Duration::from_micros(random.below(1500) as u64));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..callers)
            .map(|i| {
                scope.spawn({
                    let caller = &caller;
                    move || caller(i as u64)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        for thread in running {
            thread.join().map_err(|_| Error::Internal("a caller panicked".to_owned()))??;
        }
        Ok::<_, Error>(())
    })?;
    println!(
        "  {:.0} s: {} batches, {} answers, {} wrong",
        start.elapsed().as_secs_f64(),
        counts.0.load(Ordering::Relaxed),
        counts.1.load(Ordering::Relaxed),
        counts.2.load(Ordering::Relaxed)
    );
    Ok(())
}
