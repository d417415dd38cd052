//! Running both models on the chosen backend.

use dikast_core::Result as CoreResult;
use dikast_core::backend::Backend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_eval::{
    Evaluation, Example, Limits, NoiseFloor, Question, Subject, batch_orders, predictions, summarize,
};

use super::{Backends, noise};
use crate::classifier::{BackendChoice, OnBackend, choose};
use crate::exit::Result;
use crate::synth::bar;

/// What to do.
pub(super) struct Job<'a> {
    pub(super) examples: &'a [Example],
    pub(super) limits: Limits,
    pub(super) backend: BackendChoice,
    pub(super) noise_examples: usize,
    pub(super) noise_backends: Backends<'a>,
}

/// What was found.
pub(super) struct Outcome {
    pub(super) evaluation: Evaluation,
    /// The lines of `predictions.jsonl`.
    pub(super) predictions: String,
}

/// Runs the examples through both models.
pub(super) fn evaluate<M: Subject + Clone>(model: M, reference: Option<M>, job: &Job<'_>) -> Result<Outcome> {
    let bytes = model.weights().total_bytes();
    let both = bytes + reference.as_ref().map_or(0, |r| r.weights().total_bytes());
    choose(model, both, job.backend, Work { reference, job })
}

struct Work<'a, M> {
    reference: Option<M>,
    job: &'a Job<'a>,
}

impl<M: Subject + Clone> OnBackend<M> for Work<'_, M> {
    type Output = Outcome;

    fn run<B: Backend + 'static>(self, model: M, open: fn() -> CoreResult<B>) -> Result<Outcome> {
        let Self { reference, job } = self;
        let options = |model: &M| EngineOptions { max_tokens: model.longest(), ..EngineOptions::default() };
        let engine = |model: M| {
            let options = options(&model);
            Engine::with_model(open()?, model, options, &mut |_, _| {})
        };
        let mut candidate = engine(model)?;
        let again = reference.clone();
        let mut reference = reference.map(engine).transpose()?;
        let bar = bar();
        let found = pollster::block_on(dikast_eval::evaluate(
            &mut candidate,
            reference.as_mut(),
            job.examples,
            job.limits,
            &mut |done, all| {
                bar.set_length(all as u64);
                bar.set_position(done as u64);
            },
        ));
        bar.finish_and_clear();
        let found = found?;
        let noise = match (&mut reference, again, &found.reference) {
            (Some(engine), Some(model), Some(side)) if job.noise_examples > 0 => {
                let count = job.noise_examples.min(side.sequences.len());
                let asked: Vec<(&M::Sequence, &[Question])> = side.sequences[..count]
                    .iter()
                    .map(|(place, s)| (s, job.examples[*place].questions.as_slice()))
                    .collect();
                let usual = &side.logits[..count];
                let mut runs = pollster::block_on(batch_orders(engine, &asked, usual))?;
                let usual_backend = side.facts.backend.as_str();
                runs.extend(noise::on_backends(&model, usual_backend, job.noise_backends, &asked, usual)?);
                Some(NoiseFloor { examples: count, runs })
            }
            _ => None,
        };
        Ok(Outcome {
            evaluation: summarize(job.examples, &found, noise),
            predictions: predictions(job.examples, &found.outcomes),
        })
    }
}
