//! The reference on other backends.

use dikast_core::Result as CoreResult;
use dikast_core::backend::Backend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_eval::{NoiseRun, Question, Subject, logits_of};

use super::Backends;
use crate::classifier::{OnBackend, choose, others_worth_it};
use crate::exit::{Failure, Result};
use crate::terminal::warn;

/// Runs the reference on each of the backends but `usual_backend`, on which it ran before.
pub(super) fn on_backends<M: Subject + Clone>(
    model: &M,
    usual_backend: &str,
    chosen: Backends<'_>,
    examples: &[(&M::Sequence, &[Question])],
    usual: &[Vec<f32>],
) -> Result<Vec<NoiseRun>> {
    let own;
    let backends = match chosen {
        Some(chosen) => chosen,
        None => {
            own = others_worth_it(model.weights().total_bytes());
            &own
        }
    };
    let mut runs = Vec::new();
    for &backend in backends {
        match choose(model.clone(), 0, backend, Again(examples)) {
            Ok((name, logits)) if name != usual_backend => {
                runs.push(NoiseRun::compare::<M>(format!("on {name}"), examples, usual, &logits)?);
            }
            Ok(_) => {}
            // Nobody asked for this one.
            Err(Failure::Engine(error)) if chosen.is_none() => {
                warn(&format!("the noise floor leaves a backend out: {error}"));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(runs)
}

/// The logits of sequences, each alone, and the name of the backend.
struct Again<'a, M: Subject>(&'a [(&'a M::Sequence, &'a [Question])]);

impl<M: Subject> OnBackend<M> for Again<'_, M> {
    type Output = (String, Vec<Vec<f32>>);

    fn run<B: Backend + 'static>(self, model: M, open: fn() -> CoreResult<B>) -> Result<Self::Output> {
        let options = EngineOptions { max_tokens: model.longest(), ..EngineOptions::default() };
        let mut engine = Engine::with_model(open()?, model, options, &mut |_, _| {})?;
        let sequences: Vec<&M::Sequence> = self.0.iter().map(|(s, _)| *s).collect();
        let logits = pollster::block_on(logits_of(&mut engine, &sequences))?;
        Ok((engine.backend().capabilities().backend.clone(), logits))
    }
}
