//! The host's side of a loaded model: preparation before the queue, answers after it.

use std::sync::{Arc, OnceLock};

use dikast_core::Error;
use dikast_core::backend::Capabilities;
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
    /// Its devices, one at least.
    pub(crate) devices: Vec<Facts>,
    /// How its weights are stored.
    pub(crate) format: String,
    /// SHA-256 of its weights as hex, once it is computed.
    pub(crate) digest: OnceLock<String>,
}

/// What is told of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Backend, for example `cpu`.
    pub(crate) backend: String,
    /// Device name.
    pub(crate) device: String,
    /// The program, and the kernels where they are built apart from it.
    pub(crate) build: String,
}

impl Facts {
    pub(crate) fn new(capabilities: &Capabilities) -> Self {
        let mut build = format!("dikast {}", env!("CARGO_PKG_VERSION"));
        for (name, value) in &capabilities.details {
            if name.starts_with("kernel") {
                build.push_str(&format!(", {name} {value}"));
            }
        }
        Self { backend: capabilities.backend.clone(), device: capabilities.device.clone(), build }
    }
}

impl<M: Model> Host<M> {
    /// The device of that number.
    pub(crate) fn device(&self, number: usize) -> &Facts {
        &self.devices[number.min(self.devices.len() - 1)]
    }

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

    /// How its weights are stored.
    pub(crate) fn format(&self) -> &str {
        match self {
            Self::Clef(host) => &host.format,
            Self::GliClass(host) => &host.format,
        }
    }

    /// Its devices, one at least.
    pub(crate) fn devices(&self) -> &[Facts] {
        match self {
            Self::Clef(host) => &host.devices,
            Self::GliClass(host) => &host.devices,
        }
    }

    /// The device of that number.
    pub(crate) fn device(&self, number: usize) -> &Facts {
        match self {
            Self::Clef(host) => host.device(number),
            Self::GliClass(host) => host.device(number),
        }
    }

    /// SHA-256 of its weights, once it is computed.
    pub(crate) fn digest(&self) -> Option<&str> {
        let digest = match self {
            Self::Clef(host) => &host.digest,
            Self::GliClass(host) => &host.digest,
        };
        digest.get().map(String::as_str)
    }

    /// Most tokens of a request.
    pub(crate) fn max_tokens(&self) -> usize {
        match self {
            Self::Clef(host) => host.max_tokens,
            Self::GliClass(host) => host.max_tokens,
        }
    }
}
