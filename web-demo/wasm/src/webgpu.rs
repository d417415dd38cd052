//! A model on the browser's WebGPU: the upload, and the way back after the device was lost.

use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::ClassifyRequest;
use dikast_core::{Error, Result};
use dikast_wgpu::{DeviceOptions, WgpuBackend};
use serde_json::Value;

use crate::answer::one;

/// A model on a device that may go away at any time.
#[derive(Debug)]
pub(crate) struct OnWebGpu {
    engine: Engine<WgpuBackend>,
}

impl OnWebGpu {
    /// Uploads a model; `progress` gets bytes done and bytes in all. Done when the device said that it has everything.
    pub(crate) async fn load(
        device: WgpuBackend,
        model: GliClass,
        options: EngineOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let this = Self { engine: Engine::with_model(device, model, options, progress)? };
        this.settled().await?;
        Ok(this)
    }

    pub(crate) fn engine(&self) -> &Engine<WgpuBackend> {
        &self.engine
    }

    /// Answers one request. A device that was lost is opened anew, once.
    pub(crate) async fn answer(&mut self, request: &ClassifyRequest) -> Result<Value> {
        match one(&mut self.engine, request).await {
            Err(Error::DeviceLost { device, message }) => {
                self.rebuild().await.map_err(|error| Error::DeviceLost {
                    device,
                    message: format!("{message}; starting it again failed: {error}"),
                })?;
                one(&mut self.engine, request).await
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
