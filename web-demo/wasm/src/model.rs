//! A model that answers.

use dikast_core::Result as CoreResult;
use dikast_core::backend::Backend;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::{ClassifyRequest, parse_json};
use serde_json::{Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::answer::one;
use crate::error::{Result, thrown};
use crate::webgpu::{self, OnWebGpu};

/// A model on a device.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Model(On);

/// The backends of the browser.
#[derive(Debug)]
enum On {
    Cpu(Box<Engine<CpuBackend>>),
    WebGpu(Box<OnWebGpu>),
}

#[wasm_bindgen]
impl Model {
    /// Answers one request; both are the JSON of the core.
    pub async fn classify(&mut self, request: String) -> Result<String> {
        let request = parse(&request).map_err(|e| thrown(&e))?;
        let answer = match &mut self.0 {
            On::Cpu(engine) => one(engine, &request).await,
            On::WebGpu(model) => model.answer(&request).await,
        };
        answer.map(|answer| answer.to_string()).map_err(|e| thrown(&e))
    }

    /// What the model is and where it runs, as JSON.
    pub fn facts(&self) -> Result<String> {
        match &self.0 {
            On::Cpu(engine) => facts(engine),
            On::WebGpu(model) => facts(model.engine()),
        }
        .map(|facts| facts.to_string())
        .map_err(|e| thrown(&e))
    }
}

impl Model {
    /// On the processor.
    pub(crate) fn on_cpu(model: GliClass) -> CoreResult<Self> {
        let options = EngineOptions::default();
        Engine::with_model(CpuBackend::new(), model, options, &mut |_, _| {})
            .map(|engine| Self(On::Cpu(Box::new(engine))))
    }

    /// On the browser's graphics device. `model` is called once there is one; `progress` gets bytes done and in all.
    pub(crate) async fn on_webgpu(
        model: impl FnOnce() -> CoreResult<GliClass>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> CoreResult<Self> {
        let device = webgpu::open().await?;
        let loaded = OnWebGpu::load(device, model()?, EngineOptions::default(), progress).await?;
        Ok(Self(On::WebGpu(Box::new(loaded))))
    }
}

fn parse(request: &str) -> CoreResult<ClassifyRequest> {
    ClassifyRequest::from_json(&parse_json(request)?)
}

fn facts<B: Backend>(engine: &Engine<B>) -> CoreResult<Value> {
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
