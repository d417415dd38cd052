//! Where a model comes from, and the thread that loads and serves it.

use std::sync::Arc;

use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::clef::Clef;
use dikast_core::models::gliclass::GliClass;
use dikast_core::{Error, Result};

use super::family::Family;
use super::{Host, Slot, Status};
use crate::config::Config;
use crate::metrics::{Metrics, ModelMetrics};
use crate::queue::{self, Limits, Queue, Ran, Watch};

/// A model to serve: an id, its files, and how its device is opened.
pub struct ModelSource {
    id: String,
    decides: bool,
    serve: Box<dyn FnOnce(Start) -> Result<()> + Send>,
}

impl std::fmt::Debug for ModelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelSource")
            .field("id", &self.id)
            .field("decides", &self.decides)
            .finish_non_exhaustive()
    }
}

impl ModelSource {
    /// A model of either family: one with a `joint_head_config.json` decides, others judge labels.
    ///
    /// `open` opens the device on the thread that will own it; called again, it opens it anew.
    pub fn new<B: Backend + 'static>(
        id: impl Into<String>,
        files: ModelFiles,
        open: impl Fn() -> Result<B> + Send + 'static,
    ) -> Self {
        let decides = files.get("joint_head_config.json").is_some();
        let serve: Box<dyn FnOnce(Start) -> Result<()> + Send> = if decides {
            Box::new(move |start| start.serve::<B, Clef>(&files, &open))
        } else {
            Box::new(move |start| start.serve::<B, GliClass>(&files, &open))
        };
        Self { id: id.into(), decides, serve }
    }

    /// The id under which it is served.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the outside knows of it now.
    pub(crate) fn slot(&self, config: &Config) -> Slot {
        let default = if self.decides { Clef::MAX_TOKENS } else { GliClass::MAX_TOKENS };
        Slot::new(self.id.clone(), self.decides, config.max_tokens.unwrap_or(default))
    }

    /// Loads and serves it on this thread, until its queue is closed.
    ///
    /// # Errors
    /// Why it does not load, or why its device did not come back.
    pub(crate) fn serve(self, start: Start) -> Result<()> {
        (self.serve)(start)
    }
}

/// What a model's thread is given.
pub(crate) struct Start {
    pub(crate) slot: Arc<Slot>,
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Arc<Metrics>,
    /// Called once it is ready.
    pub(crate) ready: Box<dyn FnOnce() + Send>,
}

impl Start {
    fn serve<B: Backend, M: Family>(self, files: &ModelFiles, open: &dyn Fn() -> Result<B>) -> Result<()> {
        let Self { slot, config, metrics, ready } = self;
        let options = EngineOptions {
            max_tokens: config.max_tokens.unwrap_or(M::MAX_TOKENS),
            batch_tokens: config.batch_tokens,
            state_cache: config.state_cache,
        };
        let model = M::open(files, config.vision)?;
        let mut engine = Engine::with_model(open()?, model.clone(), options.clone(), &mut |_, _| {})?;
        // A real request: plans, compiled kernels and pages of weights are there before the first caller.
        let sequences = model.warm_up(&options)?;
        let logits = pollster::block_on(engine.logits(&sequences.iter().collect::<Vec<_>>()))?;
        if logits.iter().flatten().any(|logit| !logit.is_finite()) {
            return Err(Error::checkpoint(&slot.id, "the warm-up request gives logits that are not finite"));
        }
        let queue = Queue::new(Limits {
            batch_tokens: options.batch_tokens,
            max_wait: config.max_wait,
            queue_tokens: config.queue_tokens,
            queue_requests: config.queue_requests,
        });
        let capabilities = engine.backend().capabilities();
        slot.fill(M::loaded(Arc::new(Host {
            format: model.stored(),
            model,
            queue: queue.clone(),
            max_tokens: options.max_tokens,
            backend: capabilities.backend.clone(),
            device: capabilities.device.clone(),
        })));
        slot.set(Status::Ready);
        ready();
        let watch = Watcher { metrics: metrics.of(&slot.id), slot: slot.clone() };
        let outcome = queue::serve(&mut engine, M::logits::<B>, open, &queue, &watch);
        slot.set(Status::Ended);
        outcome
    }
}

struct Watcher {
    slot: Arc<Slot>,
    metrics: ModelMetrics,
}

impl Watch for Watcher {
    fn ran(&self, batch: Ran) {
        self.metrics.ran(batch);
    }

    fn lost(&self, _: &Error) {
        self.slot.set(Status::Recovering);
        self.metrics.lost();
    }

    fn recovered(&self) {
        self.slot.set(Status::Ready);
    }
}
