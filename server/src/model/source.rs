//! Where a model comes from.

use dikast_core::Result;
use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::models::clef::Clef;
use dikast_core::models::gliclass::GliClass;

use super::Slot;
use super::family::Family;
use super::start::Start;
use crate::config::Config;

/// A model to serve: an id, its files, and how its devices are opened.
pub struct ModelSource {
    id: String,
    decides: bool,
    devices: usize,
    serve: Box<dyn FnOnce(Start) -> Result<()> + Send>,
}

impl std::fmt::Debug for ModelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelSource")
            .field("id", &self.id)
            .field("decides", &self.decides)
            .field("devices", &self.devices)
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
        open: impl Fn() -> Result<B> + Send + Sync + 'static,
    ) -> Self {
        Self::on_devices(id, files, 1, move |_| open())
    }

    /// The same on several devices, at least one: `open` gets the number of the device, from 0 on. Each has a thread and a
    /// copy of the weights; they share one queue.
    pub fn on_devices<B: Backend + 'static>(
        id: impl Into<String>,
        files: ModelFiles,
        devices: usize,
        open: impl Fn(usize) -> Result<B> + Send + Sync + 'static,
    ) -> Self {
        let decides = files.get("joint_head_config.json").is_some();
        let serve: Box<dyn FnOnce(Start) -> Result<()> + Send> = if decides {
            Box::new(move |start| start.serve::<B, Clef>(&files, &open))
        } else {
            Box::new(move |start| start.serve::<B, GliClass>(&files, &open))
        };
        Self { id: id.into(), decides, devices: devices.max(1), serve }
    }

    /// The id under which it is served.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the outside knows of it now.
    pub(crate) fn slot(&self, config: &Config) -> Slot {
        let default = if self.decides { Clef::MAX_TOKENS } else { GliClass::MAX_TOKENS };
        Slot::new(self.id.clone(), self.decides, config.max_tokens.unwrap_or(default), self.devices)
    }

    /// Loads and serves it on this thread and one a further device, until its queue is closed.
    ///
    /// # Errors
    /// Why it does not load, or why its device did not come back.
    pub(crate) fn serve(self, start: Start) -> Result<()> {
        (self.serve)(start)
    }
}
