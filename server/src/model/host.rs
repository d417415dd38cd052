//! The host's side of a loaded model: preparation before the queue, answers after it.

use std::sync::Arc;

use dikast_core::Error;
use dikast_core::engine::Model;
use dikast_core::models::clef::Clef;
use dikast_core::models::gliclass::GliClass;

use crate::queue::{Load, Queue, Work};

/// A loaded model without its device.
pub(crate) struct Host<M: Model> {
    /// The model.
    pub(crate) model: M,
    /// The way to its device.
    pub(crate) queue: Arc<Queue<M::Sequence>>,
    /// Most tokens of a request.
    pub(crate) max_tokens: usize,
    /// Backend, for example `cpu`.
    pub(crate) backend: String,
    /// Device name.
    pub(crate) device: String,
    /// How its weights are stored.
    pub(crate) format: String,
}

impl<M: Model> Host<M> {
    /// What the sequences of a request take of batches.
    pub(crate) fn loads(work: &dyn Work<M::Sequence>) -> Vec<Load> {
        let load = |s: &M::Sequence| Load { tokens: M::load(s), outputs: M::outputs(s) };
        work.sequences().into_iter().map(load).collect()
    }
}

/// A loaded model of any family.
#[derive(Clone)]
pub(crate) enum Loaded {
    /// Typed questions.
    Clef(Arc<Host<Clef>>),
    /// Labels.
    GliClass(Arc<Host<GliClass>>),
}

impl Loaded {
    /// Requests in its queue.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::Clef(host) => host.queue.depth(),
            Self::GliClass(host) => host.queue.depth(),
        }
    }

    /// Its queue has no room.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Clef(host) => host.queue.refuses().is_some(),
            Self::GliClass(host) => host.queue.refuses().is_some(),
        }
    }

    /// Lets its queue run empty.
    pub(crate) fn close(&self) {
        match self {
            Self::Clef(host) => host.queue.close(),
            Self::GliClass(host) => host.queue.close(),
        }
    }

    /// Refuses everybody inside, so that they can ask elsewhere.
    pub(crate) fn abandon(&self, error: &Error) {
        match self {
            Self::Clef(host) => host.queue.abandon(error),
            Self::GliClass(host) => host.queue.abandon(error),
        }
    }

    /// How its weights are stored, its backend and its device.
    pub(crate) fn facts(&self) -> [&str; 3] {
        match self {
            Self::Clef(host) => [&host.format, &host.backend, &host.device],
            Self::GliClass(host) => [&host.format, &host.backend, &host.device],
        }
    }

    /// Most tokens of a request.
    pub(crate) fn max_tokens(&self) -> usize {
        match self {
            Self::Clef(host) => host.max_tokens,
            Self::GliClass(host) => host.max_tokens,
        }
    }
}
