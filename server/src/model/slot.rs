//! What the outside knows of a served model, from before it is loaded on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use super::Loaded;
use crate::wire::listing::Listed;

/// Where a model stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// Files, device, warm-up.
    Loading = 0,
    /// It answers.
    Ready = 1,
    /// The device went away and is being opened again.
    Recovering = 2,
    /// It does not answer any more.
    Ended = 3,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Recovering => "recovering",
            Self::Ended => "ended",
        }
    }
}

/// A served model.
pub(crate) struct Slot {
    /// The id that callers name and answers repeat.
    pub(crate) id: String,
    /// It answers typed questions; otherwise it judges labels.
    pub(crate) decides: bool,
    max_tokens: usize,
    status: AtomicU8,
    loaded: OnceLock<Loaded>,
}

impl Slot {
    pub(crate) fn new(id: String, decides: bool, max_tokens: usize) -> Self {
        Self {
            id,
            decides,
            max_tokens,
            status: AtomicU8::new(Status::Loading as u8),
            loaded: OnceLock::new(),
        }
    }

    pub(crate) fn status(&self) -> Status {
        match self.status.load(Ordering::Acquire) {
            0 => Status::Loading,
            1 => Status::Ready,
            2 => Status::Recovering,
            _ => Status::Ended,
        }
    }

    pub(crate) fn set(&self, status: Status) {
        self.status.store(status as u8, Ordering::Release);
    }

    /// The model once it is loaded and warm.
    pub(crate) fn loaded(&self) -> Option<&Loaded> {
        self.loaded.get()
    }

    /// Makes it known as loaded.
    pub(crate) fn fill(&self, loaded: Loaded) {
        // A model is loaded once.
        let _ = self.loaded.set(loaded);
    }

    /// How it is listed.
    pub(crate) fn listed(&self) -> Listed {
        let (description, capabilities, modalities) = if self.decides {
            (
                "Typed decisions over text, JSON and pictures",
                vec!["systemone", "decision"],
                vec!["text", "image"],
            )
        } else {
            ("Zero-shot text classification", vec!["classify"], vec!["text"])
        };
        Listed {
            id: self.id.clone(),
            description: description.to_owned(),
            capabilities,
            modalities,
            max_tokens: self.loaded().map_or(self.max_tokens, Loaded::max_tokens),
            format: self.loaded().map(|loaded| loaded.facts()[0].to_owned()),
        }
    }
}
