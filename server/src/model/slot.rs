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
    fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Loading,
            1 => Self::Ready,
            2 => Self::Recovering,
            _ => Self::Ended,
        }
    }

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
    /// One a device.
    devices: Vec<AtomicU8>,
    loaded: OnceLock<Loaded>,
}

impl Slot {
    pub(crate) fn new(id: String, decides: bool, max_tokens: usize, devices: usize) -> Self {
        let devices = (0..devices).map(|_| AtomicU8::new(Status::Loading as u8)).collect();
        Self { id, decides, max_tokens, devices, loaded: OnceLock::new() }
    }

    /// Where it stands: it answers as long as one of its devices does.
    pub(crate) fn status(&self) -> Status {
        let any = |status| self.devices().any(|device| device == status);
        match () {
            () if self.devices().all(|device| device == Status::Ended) => Status::Ended,
            () if self.loaded().is_none() => Status::Loading,
            () if any(Status::Ready) => Status::Ready,
            () if any(Status::Recovering) => Status::Recovering,
            () => Status::Loading,
        }
    }

    /// Where each of its devices stands.
    pub(crate) fn devices(&self) -> impl Iterator<Item = Status> {
        self.devices.iter().map(|device| Status::from_byte(device.load(Ordering::Acquire)))
    }

    /// Says where a device stands.
    pub(crate) fn set(&self, device: usize, status: Status) {
        if let Some(place) = self.devices.get(device) {
            place.store(status as u8, Ordering::Release);
        }
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
            format: self.loaded().map(|loaded| loaded.format().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_that_answers_is_enough() {
        let slot = Slot::new("m".to_owned(), true, 10, 2);
        slot.set(0, Status::Ready);
        // Nothing is known of the model yet.
        assert_eq!(slot.status(), Status::Loading);
        slot.set(0, Status::Ended);
        slot.set(1, Status::Ended);
        assert_eq!(slot.status(), Status::Ended);
        assert!(slot.devices().eq([Status::Ended; 2]));
    }
}
