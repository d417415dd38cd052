//! Loading a model, warming its devices, serving: what happens on the threads behind a model.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;

use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::{Error, Result};

use super::family::Family;
use super::host::Facts;
use super::{Host, Slot, Status};
use crate::config::Config;
use crate::log::Log;
use crate::metrics::{Metrics, ModelMetrics};
use crate::queue::{self, Limits, Queue, Ran, Watch};

/// What a model's threads are given.
pub(crate) struct Start {
    pub(crate) slot: Arc<Slot>,
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Log,
    /// Called once it is ready.
    pub(crate) ready: Box<dyn FnOnce() + Send>,
}

/// What the threads of one model share.
struct Shared<M: Family> {
    model: Arc<M>,
    options: EngineOptions,
    queue: Arc<Queue<M::Sequence>>,
    slot: Arc<Slot>,
    metrics: Arc<Metrics>,
    log: Log,
}

impl Start {
    /// Loads the model, puts it onto its devices and serves it there until its queue is closed.
    ///
    /// # Errors
    /// Why it does not load, or why none of its devices came back.
    pub(super) fn serve<B: Backend, M: Family>(
        self,
        files: &ModelFiles,
        open: &(dyn Fn(usize) -> Result<B> + Send + Sync),
    ) -> Result<()> {
        let Self { slot, config, metrics, log, ready } = self;
        let options = EngineOptions {
            max_tokens: config.max_tokens.unwrap_or(M::MAX_TOKENS),
            batch_tokens: config.batch_tokens,
            state_cache: config.state_cache,
        };
        let model = Arc::new(M::open(files, config.vision)?);
        let queue = Queue::new(Limits {
            batch_tokens: options.batch_tokens,
            max_wait: config.max_wait,
            queue_tokens: config.queue_tokens,
            queue_requests: config.queue_requests,
        });
        let shared = Shared { model, options, queue, slot, metrics, log };
        let (up, came_up) = mpsc::channel();
        let (shared, devices) = (&shared, shared.slot.devices().count());
        thread::scope(|scope| {
            let mut threads = Vec::with_capacity(devices);
            for device in 0..devices {
                let up = up.clone();
                let run = move || shared.device(device, &move || open(device), up);
                let name = format!("dikast-device{device}");
                let thread = thread::Builder::new().name(name).spawn_scoped(scope, run);
                threads.push(thread.map_err(|e| {
                    // Those that run already end with the queue.
                    shared.queue.close();
                    Error::Internal(format!("starting a thread: {e}"))
                })?);
            }
            drop(up);
            let mut facts: Vec<(usize, Facts)> = came_up.into_iter().collect();
            if facts.len() == devices {
                facts.sort_by_key(|(device, _)| *device);
                shared.loaded(facts.into_iter().map(|(_, facts)| facts).collect());
                ready();
            } else {
                // One did not come up: the others have nothing to wait for.
                shared.queue.close();
            }
            let outcomes = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| {
                    Err(Error::Internal("a device's thread panicked; see standard error".to_owned()))
                })
            });
            let (served, failed): (Vec<_>, Vec<_>) = outcomes.partition(Result::is_ok);
            // Devices that went away are not missed if others served to the end.
            let enough = !served.is_empty() && shared.slot.loaded().is_some();
            failed.into_iter().next().filter(|_| !enough).unwrap_or(Ok(()))
        })
    }
}

impl<M: Family> Shared<M> {
    /// Makes the model known to callers.
    fn loaded(&self, devices: Vec<Facts>) {
        let host = Arc::new(Host {
            format: self.model.stored(),
            model: M::clone(&self.model),
            queue: self.queue.clone(),
            max_tokens: self.options.max_tokens,
            devices,
            digest: OnceLock::new(),
        });
        // It reads all weights, which may take a while: receipts have it from then on.
        let digest = {
            let host = host.clone();
            move || drop(host.digest.set(host.model.weights().digest().to_string()))
        };
        // Without the thread, receipts go without the digest.
        let _ = thread::Builder::new().name("dikast-digest".to_owned()).spawn(digest);
        self.slot.fill(M::loaded(host));
    }

    /// One device, from its opening to its end.
    fn device<B: Backend>(
        &self,
        device: usize,
        open: &dyn Fn() -> Result<B>,
        up: Sender<(usize, Facts)>,
    ) -> Result<()> {
        let outcome = self.engine(open).and_then(|mut engine| {
            self.metrics.memory(
                &self.slot.id,
                device,
                &engine.backend().capabilities().backend,
                &engine.budget()?,
            );
            self.slot.set(device, Status::Ready);
            let watch = Watcher {
                metrics: self.metrics.of(&self.slot.id, device),
                slot: self.slot.clone(),
                log: self.log,
                device,
            };
            // Who waits for it may have ended.
            let _ = up.send((device, Facts::new(engine.backend().capabilities())));
            drop(up);
            queue::serve(&mut engine, M::logits::<B>, device, open, &self.queue, &watch)
        });
        self.slot.set(device, Status::Ended);
        if let Err(error) = &outcome {
            self.log.event("device ended", &format!("model {}, device {device}: {error}", self.slot.id));
        }
        outcome
    }

    /// The model on a device, after its first answer.
    fn engine<B: Backend>(&self, open: &dyn Fn() -> Result<B>) -> Result<Engine<B, M>> {
        let mut engine =
            Engine::with_shared_model(open()?, self.model.clone(), self.options.clone(), &mut |_, _| {})?;
        // A real request: plans, compiled kernels and pages of weights are there before the first caller.
        let sequences = self.model.warm_up(&self.options)?;
        let logits = pollster::block_on(engine.logits(&sequences.iter().collect::<Vec<_>>()))?;
        if logits.iter().flatten().any(|logit| !logit.is_finite()) {
            let message = "the warm-up request gives logits that are not finite";
            return Err(Error::checkpoint(&self.slot.id, message));
        }
        Ok(engine)
    }
}

struct Watcher {
    slot: Arc<Slot>,
    log: Log,
    metrics: ModelMetrics,
    device: usize,
}

impl Watch for Watcher {
    fn ran(&self, batch: Ran) {
        self.metrics.ran(batch);
    }

    fn lost(&self, error: &Error) {
        self.slot.set(self.device, Status::Recovering);
        self.metrics.lost();
        self.log.event("device lost", &format!("model {}, device {}: {error}", self.slot.id, self.device));
    }

    fn recovered(&self) {
        self.slot.set(self.device, Status::Ready);
        self.log.event("device back", &format!("model {}, device {}", self.slot.id, self.device));
    }
}
