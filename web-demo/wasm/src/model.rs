//! A model that answers.

use dikast_core::backend::Backend;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::ClassifyRequest;
use dikast_core::{Error, Result as CoreResult};
use serde_json::{Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::error::{Result, thrown};

/// A model on a device.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Model(On);

/// The backends of the browser.
#[derive(Debug)]
enum On {
    Cpu(Engine<CpuBackend>),
}

#[wasm_bindgen]
impl Model {
    /// Answers one request; both are the JSON of the core.
    pub async fn classify(&mut self, request: String) -> Result<String> {
        let request = parse(&request).map_err(|e| thrown(&e))?;
        let answer = match &mut self.0 {
            On::Cpu(engine) => one(engine, request).await,
        };
        answer.map(|answer| answer.to_string()).map_err(|e| thrown(&e))
    }

    /// What the model is and where it runs, as JSON.
    pub fn facts(&self) -> Result<String> {
        match &self.0 {
            On::Cpu(engine) => facts(engine),
        }
        .map(|facts| facts.to_string())
        .map_err(|e| thrown(&e))
    }
}

impl Model {
    /// A model on the backend of a name.
    pub(crate) fn on(backend: &str, model: GliClass) -> CoreResult<Self> {
        let options = EngineOptions::default();
        match backend {
            "cpu" => Engine::with_model(CpuBackend::new(), model, options, &mut |_, _| {}).map(On::Cpu),
            other => {
                Err(Error::Unsupported { device: "this build".to_owned(), need: format!("backend {other}") })
            }
        }
        .map(Self)
    }
}

fn parse(request: &str) -> CoreResult<ClassifyRequest> {
    let value: Value =
        serde_json::from_str(request).map_err(|e| Error::invalid("request", format!("not JSON: {e}")))?;
    ClassifyRequest::from_json(&value)
}

async fn one<B: Backend>(engine: &mut Engine<B>, request: ClassifyRequest) -> CoreResult<Value> {
    let mut answers = engine.classify(&[request]).await;
    let none = || Err(Error::Internal("no answer to a request".to_owned()));
    Ok(answers.pop().unwrap_or_else(none)?.to_json())
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
