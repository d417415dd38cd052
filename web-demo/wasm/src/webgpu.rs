//! A model on the browser's WebGPU: the upload, and the way back after the device was lost.

use dikast_core::engine::Engine;
use dikast_core::{Error, Result};
use dikast_wgpu::{DeviceOptions, WgpuBackend};

use crate::family::Family;

/// A model on a device that may go away at any time.
#[derive(Debug)]
pub(crate) struct OnWebGpu<M: Family> {
    engine: Engine<WgpuBackend, M>,
}

impl<M: Family> OnWebGpu<M> {
    /// Uploads a model; `progress` gets bytes done and bytes in all. Done when the device said that it has everything.
    pub(crate) async fn load(
        device: WgpuBackend,
        model: M,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let options = model.engine_options();
        let this = Self { engine: Engine::with_model(device, model, options, progress)? };
        this.settled().await?;
        Ok(this)
    }

    pub(crate) fn engine(&self) -> &Engine<WgpuBackend, M> {
        &self.engine
    }

    /// Answers one request. A device that was lost is opened anew, once.
    pub(crate) async fn answer(&mut self, request: &M::Request) -> Result<String> {
        match M::answer(&mut self.engine, request).await {
            Err(Error::DeviceLost { device, message }) => {
                self.rebuild().await.map_err(|error| Error::DeviceLost {
                    device,
                    message: format!("{message}; starting it again failed: {error}"),
                })?;
                M::answer(&mut self.engine, request).await
            }
            answer => answer,
        }
    }

    async fn rebuild(&mut self) -> Result<()> {
        self.engine.replace_backend(open().await?)?;
        self.settled().await
    }

    async fn settled(&self) -> Result<()> {
        let needed = self.engine.budget()?.device_weights;
        self.engine.backend().settled(needed).await
    }
}

/// Opens the browser's fastest adapter.
pub(crate) async fn open() -> Result<WgpuBackend> {
    WgpuBackend::open(&DeviceOptions::default()).await
}
