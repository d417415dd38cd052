//! Requests from many threads to one model on one device.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::packer::{Logits, Packer, Pending, WAITING};
use super::{Engine, EngineOptions, receipt};
use crate::answers::{self, Classification, Receipt};
use crate::backend::Backend;
use crate::models::gliclass::GliClass;
use crate::request::ClassifyRequest;
use crate::tokens::Sequence;
use crate::tokens::gliclass::{Prepared, prepare};
use crate::{Error, Result};

/// A model on a device that many threads ask: tokens are made on the caller's thread, batches are packed and computed on
/// the device's own. The answer to a request has the same bits as alone. Clones share the device.
#[derive(Debug, Clone)]
pub struct Queue {
    packer: Packer,
    model: Arc<GliClass>,
    options: EngineOptions,
    backend: String,
}

/// An answer on its way: a future, or something to wait for. Dropping it takes the request back.
#[derive(Debug)]
#[must_use = "dropping it takes the request back"]
pub struct Reply {
    request: ClassifyRequest,
    prepared: Prepared,
    receipt: Receipt,
    logits: Pending,
}

impl Queue {
    /// Puts a model onto the device that `open` opens, on a thread of its own; there `open` is called again when the
    /// device was lost.
    ///
    /// # Errors
    /// Those of `open` and [`Engine::with_model`].
    pub fn start<B: Backend + 'static>(
        model: GliClass,
        open: impl Fn() -> Result<B> + Send + 'static,
        options: EngineOptions,
    ) -> Result<Self> {
        let model = Arc::new(model);
        let (tell, name) = std::sync::mpsc::channel();
        let own = (Arc::clone(&model), options.clone());
        let make = move || {
            let backend = open()?;
            let _ = tell.send(backend.capabilities().backend.clone());
            let mut engine = Engine::with_shared_model(backend, own.0, own.1, &mut |_, _| {})?;
            Ok(move |batch: &[&Sequence]| compute(&mut engine, batch, &open))
        };
        let packer = Packer::start(make, &options, WAITING)?;
        let backend = name.recv().unwrap_or_default();
        Ok(Self { packer, model, options, backend })
    }

    /// The model.
    pub fn model(&self) -> &GliClass {
        &self.model
    }

    /// Hands in a request; blocks while too many wait.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] or [`Error::TooLarge`] for the request.
    pub fn submit(&self, request: ClassifyRequest) -> Result<Reply> {
        let (prepared, sequences) = self.prepare(&request)?;
        let logits = self.packer.submit(sequences)?;
        Ok(self.reply(request, prepared, logits))
    }

    /// The same, but `None` instead of waiting for room.
    ///
    /// # Errors
    /// As [`Queue::submit`].
    pub fn try_submit(&self, request: ClassifyRequest) -> Result<Option<Reply>> {
        let (prepared, sequences) = self.prepare(&request)?;
        let logits = self.packer.try_submit(sequences)?;
        Ok(logits.map(|logits| self.reply(request, prepared, logits)))
    }

    fn prepare(&self, request: &ClassifyRequest) -> Result<(Prepared, Arc<[Sequence]>)> {
        let prepared =
            prepare(self.model.config(), self.model.tokenizer(), request, self.options.max_tokens)?;
        let sequences = Arc::from(prepared.sequences.as_slice());
        Ok((prepared, sequences))
    }

    fn reply(&self, request: ClassifyRequest, prepared: Prepared, logits: Pending) -> Reply {
        let receipt = receipt(&self.model, &self.backend, &prepared);
        Reply { request, prepared, receipt, logits }
    }
}

impl Reply {
    /// Blocks until the answer is there.
    ///
    /// # Errors
    /// As [`Backend::run`].
    pub fn wait(self) -> Result<Classification> {
        let logits = self.logits.wait()?;
        answers::assemble(&self.request, &self.prepared, &logits, self.receipt)
    }
}

impl Future for Reply {
    type Output = Result<Classification>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let logits = ready!(Pin::new(&mut self.logits).poll(context));
        let receipt = std::mem::take(&mut self.receipt);
        Poll::Ready(logits.and_then(|l| answers::assemble(&self.request, &self.prepared, &l, receipt)))
    }
}

/// A device may come back (a driver update, a reset): tries once on a new one.
fn compute<B: Backend>(
    engine: &mut Engine<B>,
    batch: &[&Sequence],
    open: &impl Fn() -> Result<B>,
) -> Result<Logits> {
    match pollster::block_on(engine.logits(batch)) {
        Err(Error::DeviceLost { .. }) => {
            engine.replace_backend(open()?)?;
            pollster::block_on(engine.logits(batch))
        }
        other => other,
    }
}
