//! The parity suite in a browser: WebGPU against the definitions of the steps, both in one module.
//!
//! For the browser tests alone; the package does not hold it.
#![cfg(target_arch = "wasm32")]

use std::collections::BTreeMap;
use std::sync::Arc;

use dikast_core::Error;
use dikast_core::backend::Backend;
use dikast_core::checkpoint::{Blob, ModelFiles};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions, Model};
use dikast_core::models::clef::Clef;
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::{ClassifyRequest, DecideRequest, Json, Rules, gather_pictures};
use dikast_parity::{Tolerance, check_layer, judge, known_layers, known_products, record};
use dikast_wgpu::{DeviceOptions, Int8Products, WgpuBackend};
use serde_json::json;
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

type Result<T> = std::result::Result<T, JsError>;

/// INT8 layers with stored values on a backend, `cpu` or `webgpu`: the numbers of codes and outputs compared, as JSON.
///
/// `layers` and `products` are `convrot_linear.safetensors` and `int8_gemm.safetensors`. What is not the stored value, bit
/// for bit, is thrown.
#[wasm_bindgen(js_name = knownLayers)]
pub async fn known(layers: Vec<u8>, products: Vec<u8>, backend: String) -> Result<String> {
    match backend.as_str() {
        "cpu" => check(&CpuBackend::new(), &layers, &products).await,
        _ => {
            // Known are codes and their sums.
            let options = DeviceOptions { int8: Int8Products::Packed, ..DeviceOptions::default() };
            check(&WgpuBackend::open(&options).await?, &layers, &products).await
        }
    }
}

async fn check<B: Backend>(backend: &B, layers: &[u8], products: &[u8]) -> Result<String> {
    let mut all = known_layers(layers)?;
    all.extend(known_products(products)?);
    let (mut codes, mut outputs) = (0, 0);
    for layer in &all {
        let (c, o) = check_layer(backend, layer).await?;
        (codes, outputs) = (codes + c, outputs + o);
    }
    let device = &backend.capabilities().device;
    Ok(json!({"layers": all.len(), "codes": codes, "outputs": outputs, "device": device}).to_string())
}

/// A checkpoint in memory.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Checkpoint {
    files: BTreeMap<String, Blob>,
}

#[wasm_bindgen]
impl Checkpoint {
    /// One without files.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    pub fn put(&mut self, name: String, bytes: Vec<u8>) {
        self.files.insert(name, Blob::Owned(Arc::from(bytes)));
    }

    /// The parity report of WebGPU over a CLEF model, as JSON; `request` is a System One body.
    pub async fn decider(&self, request: String) -> Result<String> {
        let model = Clef::load(&self.files())?;
        let mut body = Json::parse(request)?;
        gather_pictures(&mut body)?;
        let request = DecideRequest::from_tree(body, &Rules::default())?;
        compare(model, |engine| Ok(vec![engine.prepare(&request)?])).await
    }

    /// The same over a GLiClass model; `request` has `text` and `labels`.
    pub async fn classifier(&self, request: String) -> Result<String> {
        let model = GliClass::load(&self.files())?;
        let request = ClassifyRequest::from_json(&serde_json::from_str(&request)?)?;
        compare(model, |engine| Ok(engine.prepare(&request)?.sequences)).await
    }
}

impl Checkpoint {
    fn files(&self) -> ModelFiles {
        ModelFiles::from_memory("model", self.files.clone())
    }
}

async fn compare<M: Model + Clone>(
    model: M,
    sequences: impl FnOnce(&Engine<CpuBackend, M>) -> dikast_core::Result<Vec<M::Sequence>>,
) -> Result<String> {
    let options = EngineOptions { max_tokens: 2048, ..EngineOptions::default() };
    let load = |backend| Engine::with_model(backend, model.clone(), options.clone(), &mut |_, _| {});
    let mut cpu = load(CpuBackend::new())?;
    let sequences = sequences(&cpu)?;
    let sequences: Vec<&M::Sequence> = sequences.iter().collect();
    let want = record(&mut cpu, &sequences).await?;
    drop(cpu);
    let mut gpu = Engine::with_model(open().await?, model.clone(), options.clone(), &mut |_, _| {})?;
    let found = record(&mut gpu, &sequences).await?;
    let definition = (model.graph(), model.weights());
    let report = judge("model", definition, &found, &want, Tolerance::F32.quantized())?;
    Ok(report.to_json()?)
}

async fn open() -> std::result::Result<WgpuBackend, Error> {
    WgpuBackend::open(&DeviceOptions::default()).await
}
