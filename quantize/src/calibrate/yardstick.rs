//! How near a model's answers to the selection set are to the unquantized model's.

use std::sync::Arc;

use dikast_core::backend::Taps;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine};
use dikast_core::models::clef::Clef;
use dikast_core::{Error, Result};
use dikast_eval::{Example, Subject};

use super::{engine, sequences};

/// The selection set and what the unquantized model answers.
#[derive(Debug, Clone)]
pub(super) struct Yardstick(Arc<Vec<(ClefSequence, Answer)>>);

/// Logits, and the final hidden states of questions and options.
#[derive(Debug, Clone)]
struct Answer {
    logits: Vec<f32>,
    hidden: Vec<f32>,
}

impl Yardstick {
    pub(super) fn new(reference: &Clef, examples: &[Example]) -> Result<Self> {
        let sequences = sequences(reference, examples, "select")?;
        let mut engine = engine(reference.clone())?;
        let answers: Vec<Answer> = sequences.iter().map(|s| answer(&mut engine, s)).collect::<Result<_>>()?;
        Ok(Self(Arc::new(sequences.into_iter().zip(answers).collect())))
    }

    /// `‖a − b‖₂ / ‖b‖₂` of all logits, and of all hidden states. Over all examples together: the mean of their own
    /// distances hangs on the few with small logits.
    pub(super) fn apart(&self, model: Clef) -> Result<Apart> {
        let mut engine = engine(model)?;
        let (mut logits, mut hidden) = ([0.0; 2], [0.0; 2]);
        for (sequence, wanted) in self.0.iter() {
            let found = answer(&mut engine, sequence)?;
            add(&mut logits, &found.logits, &wanted.logits);
            add(&mut hidden, &found.hidden, &wanted.hidden);
        }
        let root = |[square, norm]: [f64; 2]| (square / norm.max(f64::MIN_POSITIVE)).sqrt();
        Ok(Apart { logits: root(logits), hidden: root(hidden) })
    }
}

/// How far answers are apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Apart {
    pub(super) logits: f64,
    pub(super) hidden: f64,
}

impl Apart {
    /// Both, on the same footing.
    pub(super) fn mean(self) -> f64 {
        (self.logits * self.hidden).sqrt()
    }
}

/// Adds the squares of the differences and of what is wanted.
fn add(sums: &mut [f64; 2], found: &[f32], wanted: &[f32]) {
    for (a, b) in found.iter().zip(wanted) {
        let (a, b) = (f64::from(*a), f64::from(*b));
        sums[0] += (a - b) * (a - b);
        sums[1] += b * b;
    }
}

fn answer(engine: &mut Engine<CpuBackend, Clef>, sequence: &ClefSequence) -> Result<Answer> {
    let mut taps = Taps::named(engine.graph(), &[Clef::HIDDEN])?;
    let batch = engine.pack(&[sequence])?;
    let logits = pollster::block_on(engine.forward(&batch, &mut taps))?;
    let missing = || Error::Internal(format!("{} was not tapped", Clef::HIDDEN));
    let all = engine.graph().find(Clef::HIDDEN).and_then(|id| taps.get(id)).ok_or_else(missing)?;
    let width = all.len() / Clef::tokens(sequence).max(1);
    let rows = Clef::answer_rows(sequence).into_iter();
    let rows = rows.map(|row| all.get(row * width..(row + 1) * width)).collect::<Option<Vec<_>>>();
    Ok(Answer { logits, hidden: rows.ok_or_else(missing)?.concat() })
}
