//! Running examples through a model and its reference.

use std::time::Instant;

use dikast_core::backend::{Backend, Taps};
use dikast_core::engine::Engine;
use dikast_core::graph::TensorId;
use dikast_core::{Error, Result};

use crate::data::{Example, Question};
use crate::drift::{BlockDrift, Blocks, Sums};
use crate::metrics::{median, relative_l2};
use crate::outcome::{Answered, Outcome};
use crate::report::{ModelFacts, Skipped};
use crate::subject::Subject;

/// Rounds of the examples that are timed.
const ROUNDS: usize = 3;
/// Weights up to here are hashed for the report; more would take minutes.
const HASHED: u64 = 1 << 30;

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most tokens of a sequence; the model's own limit where there is none.
    pub max_tokens: Option<usize>,
    /// Examples whose blocks are compared, the first ones; each costs as much as a forward pass on the host.
    pub drift_examples: usize,
    /// Examples that are timed, the first ones; each three times and once before.
    pub timed_examples: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_tokens: None, drift_examples: 32, timed_examples: 16 }
    }
}

/// A model, and where it ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Side<S> {
    /// What is to be said of it.
    pub facts: ModelFacts,
    /// The sequences of the examples that were run, with the places of those.
    pub sequences: Vec<(usize, S)>,
    /// The logits of each of them, as the model gives them.
    pub logits: Vec<Vec<f32>>,
}

/// What running gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated<S> {
    /// The model in question.
    pub candidate: Side<S>,
    /// The model that it was made from.
    pub reference: Option<Side<S>>,
    /// The answers, one entry an example that was run.
    pub outcomes: Vec<Outcome>,
    /// Examples that were not run, and why.
    pub skipped: Vec<Skipped>,
    /// The drift of each block over the first examples; empty where the two have other blocks.
    pub blocks: Vec<BlockDrift>,
    /// How many of them.
    pub drift_examples: usize,
}

/// Runs every example alone through `candidate` and, where there is one, through `reference`, with taps for hidden states
/// and blocks. `progress` gets examples done and in all.
///
/// Examples that a model cannot read (too long, another family's, invalid labels) are left out and listed.
///
/// # Errors
/// As [`Backend::run`]; [`Error::InvalidRequest`] when no example is left, with the reason of the first;
/// [`Error::Checkpoint`] naming the example for logits that are not finite.
pub async fn evaluate<B: Backend, M: Subject>(
    candidate: &mut Engine<B, M>,
    mut reference: Option<&mut Engine<B, M>>,
    examples: &[Example],
    limits: Limits,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Evaluated<M::Sequence>> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    let mut skipped = Vec::new();
    for (place, example) in examples.iter().enumerate() {
        let found = prepare(candidate.model(), example, limits).and_then(|own| {
            let other = reference.as_ref().map(|r| prepare(r.model(), example, limits)).transpose()?;
            Ok((own, other))
        });
        match found {
            Ok((sequence, other)) => {
                own.push((place, sequence));
                others.extend(other.map(|o| (place, o)));
            }
            Err(e @ (Error::InvalidRequest { .. } | Error::TooLarge { .. } | Error::Unsupported { .. })) => {
                skipped.push(Skipped {
                    id: example.id.clone(),
                    set: example.set.clone(),
                    reason: e.to_string(),
                });
            }
            Err(e) => return Err(e),
        }
    }
    if own.is_empty() {
        let reason = skipped.first().map_or_else(String::new, |s| format!("; {}: {}", s.id, s.reason));
        return Err(Error::invalid("data", format!("no example that this model can read{reason}")));
    }
    let blocks = Blocks::of(candidate.graph());
    let other_blocks = reference.as_ref().map(|r| Blocks::of(r.graph()));
    let alike = match (&other_blocks, &reference) {
        (Some(other), Some(r)) => !blocks.is_empty() && blocks.alike(candidate.graph(), other, r.graph()),
        _ => false,
    };
    let mut sums = Sums::default();
    let mut outcomes = Vec::with_capacity(own.len());
    let (mut own_logits, mut other_logits) = (Vec::new(), Vec::new());
    let mut drift_examples = 0;
    for (n, (place, sequence)) in own.iter().enumerate() {
        let example = &examples[*place];
        let named = |e| naming(example, e);
        let drifts = alike && n < limits.drift_examples;
        let mut taps = tapping(candidate, if drifts { &blocks } else { &NONE })?;
        let batch = candidate.pack(&[sequence])?;
        let flat = candidate.forward(&batch, &mut taps).await?;
        let answers = answered::<M>(sequence, &flat, &example.questions).map_err(named)?;
        let mut outcome = Outcome {
            example: *place,
            tokens: M::tokens(sequence),
            candidate: answers,
            reference: None,
            logit_l2: None,
            hidden_l2: None,
        };
        if let (Some(reference), Some(other_blocks)) = (reference.as_deref_mut(), &other_blocks) {
            let other = &others[n].1;
            let mut other_taps = tapping(reference, if drifts { other_blocks } else { &NONE })?;
            let other_batch = reference.pack(&[other])?;
            let other_flat = reference.forward(&other_batch, &mut other_taps).await?;
            if flat.len() == other_flat.len() {
                outcome.logit_l2 = Some(relative_l2(&flat, &other_flat));
            }
            outcome.reference = Some(answered::<M>(other, &other_flat, &example.questions).map_err(named)?);
            // Rows mean the same only when both read the same tokens.
            if sequence == other {
                let rows = M::answer_rows(sequence);
                let a = hidden(candidate, &taps, &rows, outcome.tokens);
                let b = hidden(reference, &other_taps, &rows, outcome.tokens);
                outcome.hidden_l2 =
                    a.zip(b).filter(|(a, b)| a.len() == b.len()).map(|(a, b)| relative_l2(&a, &b));
                if drifts {
                    let own = (&blocks, candidate.graph(), candidate.model().weights());
                    sums.add(own, other_blocks, &batch, &taps, &other_taps)?;
                    drift_examples += 1;
                }
            }
            other_logits.push(other_flat);
        }
        own_logits.push(flat);
        outcomes.push(outcome);
        progress(n + 1, own.len());
    }
    let timed = limits.timed_examples.min(own.len());
    let (mut own_times, mut other_times) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        for n in 0..timed {
            // One after the other, so that both see the machine in the same state.
            let time = timed_run(candidate, &own[n].1).await?;
            let other = match reference.as_deref_mut() {
                Some(reference) => Some(timed_run(reference, &others[n].1).await?),
                None => None,
            };
            if round > 0 {
                own_times.push(time);
                other_times.extend(other);
            }
        }
    }
    let candidate = Side { facts: facts(candidate, &own_times)?, sequences: own, logits: own_logits };
    let reference = match reference {
        Some(r) => Some(Side { facts: facts(r, &other_times)?, sequences: others, logits: other_logits }),
        None => None,
    };
    let blocks = if drift_examples > 0 { sums.finish(&blocks) } else { Vec::new() };
    Ok(Evaluated { candidate, reference, outcomes, skipped, blocks, drift_examples })
}

/// The logits of sequences, each alone, as the model gives them.
///
/// # Errors
/// As [`Backend::run`].
pub async fn logits_of<B: Backend, M: Subject>(
    engine: &mut Engine<B, M>,
    sequences: &[&M::Sequence],
) -> Result<Vec<Vec<f32>>> {
    let mut all = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        all.extend(engine.logits(&[*sequence]).await?);
    }
    Ok(all)
}

/// No blocks: only the hidden states are tapped.
static NONE: Blocks = Blocks::none();

fn prepare<M: Subject>(model: &M, example: &Example, limits: Limits) -> Result<M::Sequence> {
    let longest = limits.max_tokens.unwrap_or(usize::MAX).min(model.longest());
    model.sequence(&example.request, longest)
}

/// Taps for the final hidden states and for some blocks.
fn tapping<B: Backend, M: Subject>(engine: &Engine<B, M>, blocks: &Blocks) -> Result<Taps> {
    let graph = engine.graph();
    let names: Vec<&str> = blocks.tensors().into_iter().map(|id| graph.tensor(id).name.as_str()).collect();
    let hidden = graph.find(M::HIDDEN).is_some().then_some(M::HIDDEN);
    Taps::named(graph, &names.into_iter().chain(hidden).collect::<Vec<_>>())
}

/// The final hidden states of some rows.
fn hidden<B: Backend, M: Subject>(
    engine: &Engine<B, M>,
    taps: &Taps,
    rows: &[usize],
    tokens: usize,
) -> Option<Vec<f32>> {
    let id: TensorId = engine.graph().find(M::HIDDEN)?;
    let all = taps.get(id)?;
    let width = all.len().checked_div(tokens)?;
    rows.iter().map(|r| all.get(r * width..(r + 1) * width)).collect::<Option<Vec<_>>>().map(|r| r.concat())
}

fn answered<M: Subject>(
    sequence: &M::Sequence,
    flat: &[f32],
    questions: &[Question],
) -> Result<Vec<Answered>> {
    let rows = M::by_question(sequence, flat, questions)?;
    questions.iter().zip(rows).map(|(question, row)| Answered::new(question, row)).collect()
}

/// The same error, naming the example.
fn naming(example: &Example, error: Error) -> Error {
    match error {
        Error::Checkpoint { item, message } => {
            Error::Checkpoint { item: format!("example {:?}: {item}", example.id), message }
        }
        other => other,
    }
}

/// Milliseconds of one sequence alone.
async fn timed_run<B: Backend, M: Subject>(engine: &mut Engine<B, M>, sequence: &M::Sequence) -> Result<f64> {
    let started = Instant::now();
    engine.logits(&[sequence]).await?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

fn facts<B: Backend, M: Subject>(engine: &Engine<B, M>, times: &[f64]) -> Result<ModelFacts> {
    let (model, budget) = (engine.model(), engine.budget()?);
    let about = engine.backend().capabilities();
    let bytes = model.weights().total_bytes();
    Ok(ModelFacts {
        name: model.name().to_owned(),
        family: M::FAMILY.to_owned(),
        format: model.format(),
        digest: (bytes <= HASHED).then(|| model.weights().digest().to_string()),
        weight_bytes: bytes,
        device_bytes: budget.device(),
        host_bytes: budget.host_tables,
        backend: about.backend.clone(),
        device: about.device.clone(),
        median_ms: median(times),
    })
}
