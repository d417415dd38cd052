//! What a model differs by from itself: a distance below that says nothing about the candidate.

use dikast_core::backend::Backend;
use dikast_core::engine::Engine;
use dikast_core::{Error, Result};
use serde::Serialize;

use crate::data::Question;
use crate::metrics::relative_l2;
use crate::outcome::Answered;
use crate::subject::Subject;

/// The reference against itself, run in another way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseRun {
    /// The other way: an order of batches, or a backend.
    pub way: String,
    /// Decisions that are the same.
    pub agreeing: u64,
    /// Decisions compared.
    pub decisions: u64,
    /// Mean relative distance of an example's logits.
    pub logit_l2: f64,
    /// The largest.
    pub largest_logit_l2: f64,
    /// Every logit has the same bits.
    pub same_bits: bool,
}

impl NoiseRun {
    /// Compares logits, one row an example as the model gives them, with those of the usual way.
    ///
    /// # Errors
    /// [`Error::Internal`] for other examples, [`Error::Checkpoint`] for logits that are not finite.
    pub fn compare<M: Subject>(
        way: impl Into<String>,
        examples: &[(&M::Sequence, &[Question])],
        usual: &[Vec<f32>],
        other: &[Vec<f32>],
    ) -> Result<Self> {
        if usual.len() != examples.len() || other.len() != examples.len() {
            return Err(Error::Internal("logits of other examples".to_owned()));
        }
        let mut run = Self {
            way: way.into(),
            agreeing: 0,
            decisions: 0,
            logit_l2: 0.0,
            largest_logit_l2: 0.0,
            same_bits: true,
        };
        for (((sequence, questions), a), b) in examples.iter().zip(usual).zip(other) {
            let apart = relative_l2(b, a);
            run.logit_l2 += apart / examples.len() as f64;
            run.largest_logit_l2 = run.largest_logit_l2.max(apart);
            run.same_bits &= a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()));
            let rows = [a, b].map(|flat| M::by_question(sequence, flat, questions));
            let [a, b] = rows;
            for ((question, a), b) in questions.iter().zip(a?).zip(b?) {
                let (a, b) = (Answered::new(question, a)?, Answered::new(question, b)?);
                for i in 0..a.decisions(question.rule) {
                    run.decisions += 1;
                    run.agreeing += u64::from(a.agrees(&b, question.rule, i));
                }
            }
        }
        Ok(run)
    }
}

/// Runs sequences in batches in their order, in the reverse order, and alone again; compares each with `usual`, what they
/// gave alone.
///
/// # Errors
/// As [`Engine::logits`] and [`NoiseRun::compare`].
pub async fn batch_orders<B: Backend, M: Subject>(
    engine: &mut Engine<B, M>,
    examples: &[(&M::Sequence, &[Question])],
    usual: &[Vec<f32>],
) -> Result<Vec<NoiseRun>> {
    let sequences: Vec<&M::Sequence> = examples.iter().map(|(s, _)| *s).collect();
    let forward = engine.logits(&sequences).await?;
    let reversed: Vec<&M::Sequence> = sequences.iter().rev().copied().collect();
    let mut backward = engine.logits(&reversed).await?;
    backward.reverse();
    let mut alone = Vec::with_capacity(sequences.len());
    for sequence in &sequences {
        alone.extend(engine.logits(&[*sequence]).await?);
    }
    Ok(vec![
        NoiseRun::compare::<M>("in batches", examples, usual, &forward)?,
        NoiseRun::compare::<M>("in batches, in reverse order", examples, usual, &backward)?,
        NoiseRun::compare::<M>("alone, a second time", examples, usual, &alone)?,
    ])
}
