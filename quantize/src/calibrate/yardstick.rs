//! How near a model's answers to the selection set are to the unquantized model's.

use std::sync::Arc;

use dikast_core::backend::Taps;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine};
use dikast_core::models::clef::Clef;
use dikast_core::{Error, Result};
use dikast_eval::metrics::relative_l2;
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
        let answers: Vec<Answer> =
            sequences.iter().map(|s| answer(&mut engine, s)).collect::<Result<_>>()?;
        Ok(Self(Arc::new(sequences.into_iter().zip(answers).collect())))
    }

    /// The geometric mean of two means over the examples: the relative distances of logits, and of hidden states.
    pub(super) fn apart(&self, model: Clef) -> Result<f64> {
        let mut engine = engine(model)?;
        let (mut logits, mut hidden) = (0.0, 0.0);
        for (sequence, wanted) in self.0.iter() {
            let found = answer(&mut engine, sequence)?;
            logits += relative_l2(&found.logits, &wanted.logits);
            hidden += relative_l2(&found.hidden, &wanted.hidden);
        }
        Ok((logits * hidden).sqrt() / self.0.len().max(1) as f64)
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
