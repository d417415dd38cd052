//! A model that answers.

use dikast_core::Result as CoreResult;
use dikast_core::backend::Backend;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::Engine;
use dikast_core::models::clef::Clef;
use dikast_core::models::gliclass::GliClass;
use serde_json::{Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::error::{Result, thrown};
use crate::family::Family;
use crate::webgpu::{self, OnWebGpu};

/// A model on a device.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Model(Any);

/// The model families.
#[derive(Debug)]
enum Any {
    Classifier(On<GliClass>),
    Decider(On<Clef>),
}

/// The backends of the browser.
#[derive(Debug)]
pub(crate) enum On<M: Family> {
    Cpu(Box<Engine<CpuBackend, M>>),
    WebGpu(Box<OnWebGpu<M>>),
}

#[wasm_bindgen]
impl Model {
    /// Answers one request in its family's JSON; `options` is what stands beside it, empty for nothing.
    pub async fn answer(&mut self, request: String, options: String) -> Result<String> {
        match &mut self.0 {
            Any::Classifier(on) => on.answer(&request, &options).await,
            Any::Decider(on) => on.answer(&request, &options).await,
        }
        .map_err(|e| thrown(&e))
    }

    /// What the model is and where it runs, as JSON.
    pub fn facts(&self) -> Result<String> {
        match &self.0 {
            Any::Classifier(on) => on.facts(),
            Any::Decider(on) => on.facts(),
        }
        .map(|facts| facts.to_string())
        .map_err(|e| thrown(&e))
    }
}

impl From<On<GliClass>> for Model {
    fn from(on: On<GliClass>) -> Self {
        Self(Any::Classifier(on))
    }
}

impl From<On<Clef>> for Model {
    fn from(on: On<Clef>) -> Self {
        Self(Any::Decider(on))
    }
}

impl<M: Family> On<M> {
    /// On the processor.
    pub(crate) fn cpu(model: M) -> CoreResult<Self> {
        let options = model.engine_options();
        Engine::with_model(CpuBackend::new(), model, options, &mut |_, _| {})
            .map(|engine| Self::Cpu(Box::new(engine)))
    }

    /// On the browser's graphics device. `model` is called once there is one; `progress` gets bytes done and in all.
    pub(crate) async fn webgpu(
        model: impl FnOnce() -> CoreResult<M>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> CoreResult<Self> {
        let device = webgpu::open().await?;
        let loaded = OnWebGpu::load(device, model()?, progress).await?;
        Ok(Self::WebGpu(Box::new(loaded)))
    }

    async fn answer(&mut self, request: &str, options: &str) -> CoreResult<String> {
        let request = M::request(request, options)?;
        match self {
            Self::Cpu(engine) => M::answer(engine, &request).await,
            Self::WebGpu(model) => model.answer(&request).await,
        }
    }

    fn facts(&self) -> CoreResult<Value> {
        match self {
            Self::Cpu(engine) => facts(engine),
            Self::WebGpu(model) => facts(model.engine()),
        }
    }
}

fn facts<B: Backend, M: Family>(engine: &Engine<B, M>) -> CoreResult<Value> {
    let (capabilities, budget) = (engine.backend().capabilities(), engine.budget()?);
    let details =
        capabilities.details.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    Ok(json!({
        "name": engine.model().name(),
        "format": engine.model().format(),
        "weight_bytes": engine.model().weights().total_bytes(),
        "steps": engine.graph().steps().len(),
        "max_tokens": engine.options().max_tokens,
        "backend": capabilities.backend,
        "device": capabilities.device,
        "details": details.collect::<serde_json::Map<_, _>>(),
        "memory": {
            "device_weights": budget.device_weights,
            "host_tables": budget.host_tables,
            "activations": budget.activations,
        },
    }))
}
