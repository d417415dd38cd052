//! What `decide` needs from an engine.

use dikast_core::answers::Decision;
use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::request::DecideRequest;
use dikast_core::{Error, Result};

use crate::args::DecideArgs;
use crate::classifier::{BackendChoice, OnBackend, choose, limit_memory, load_media_late};
use crate::exit::{self, Failure};
use crate::terminal;

/// Something that answers decision requests.
pub(crate) trait Decider {
    /// One result a request, in order.
    fn decide(&mut self, requests: &[DecideRequest]) -> Vec<Result<Decision>>;
}

/// The reference's token limit of a request. A model that was made for fewer positions has those as its limit.
const MAX_TOKENS: usize = 16_384;

/// What a request has too many of when its state does not fit; the engine only speaks of its input.
pub(crate) const TOO_LONG: &str = "tokens of state, questions and media";

/// Loads a model onto the backend that the flags choose.
pub(crate) fn load(files: &ModelFiles, args: &DecideArgs) -> exit::Result<Box<dyn Decider>> {
    limit_memory(args.memory_budget);
    load_media_late(args.vision.is_lazy());
    let options = ClefOptions { vision: args.vision.reads(), ..ClefOptions::default() };
    let model = Clef::load_with(files, options).map_err(Failure::Model)?;
    let bytes = model.weights().total_bytes();
    let limit = MAX_TOKENS.min(model.config().text.max_position_embeddings);
    let options = EngineOptions {
        max_tokens: args.max_tokens.map_or(limit, |n| n.get()),
        state_cache: args.state_cache.unwrap_or(0),
        ..EngineOptions::default()
    };
    let digest = args.receipt.then(|| model.weights().digest().to_string());
    let work = || Load { options: options.clone(), digest: digest.clone() };
    if args.backend != BackendChoice::Auto {
        return choose(model, bytes, args.backend, work());
    }
    match choose(model.clone(), bytes, BackendChoice::Auto, work()) {
        // Nobody asked for the device that lacks something.
        Err(Failure::Engine(error @ Error::Unsupported { .. })) => {
            terminal::warn(&format!("the model runs on the CPU: {error}"));
            choose(model, bytes, BackendChoice::Cpu, work())
        }
        loaded => loaded,
    }
}

struct Load {
    options: EngineOptions,
    /// SHA-256 of the weights for receipts.
    digest: Option<String>,
}

impl OnBackend<Clef> for Load {
    type Output = Box<dyn Decider>;

    fn run<B: Backend + 'static>(self, model: Clef, open: fn() -> Result<B>) -> exit::Result<Self::Output> {
        let engine = Engine::with_model(open()?, model, self.options, &mut |_, _| {})?;
        Ok(Box::new(EngineDecider { engine, open, digest: self.digest }))
    }
}

struct EngineDecider<B: Backend> {
    engine: Engine<B, Clef>,
    open: fn() -> Result<B>,
    digest: Option<String>,
}

impl<B: Backend> Decider for EngineDecider<B> {
    fn decide(&mut self, requests: &[DecideRequest]) -> Vec<Result<Decision>> {
        let mut answers = pollster::block_on(self.engine.decide(requests));
        let lost = answers.iter().any(|a| matches!(a, Err(Error::DeviceLost { .. })));
        // A device may come back (a driver update, a reset): try once on a new one.
        if lost && (self.open)().and_then(|device| self.engine.replace_backend(device)).is_ok() {
            answers = pollster::block_on(self.engine.decide(requests));
        }
        for answer in &mut answers {
            match answer {
                Ok(decision) => decision.receipt.checkpoint_digest.clone_from(&self.digest),
                Err(Error::TooLarge { what, .. }) if what == "input tokens" => TOO_LONG.clone_into(what),
                Err(_) => {}
            }
        }
        answers
    }
}
