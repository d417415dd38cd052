//! A checkpoint, file by file.

use std::collections::BTreeMap;
use std::sync::Arc;

use dikast_core::checkpoint::{Blob, ModelFiles, parse_sums, weight_files};
use dikast_core::models::gliclass::{GliClass, GliClassConfig, Preface};
use dikast_core::{Error, Result as CoreResult};
use js_sys::{Function, Uint8Array};
use serde_json::{Map, Value, json};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::error::{Result, thrown};
use crate::incoming::Incoming;
use crate::model::Model;

const CONFIG: &str = "config.json";

/// Takes a checkpoint's files as they arrive and makes a [`Model`] of them.
///
/// The order is the caller's: the small files, [`Loader::check`], the weights, [`Loader::finish`].
#[wasm_bindgen]
#[derive(Debug)]
pub struct Loader {
    name: String,
    files: BTreeMap<String, Blob>,
    incoming: Option<Incoming>,
    preface: Option<Preface>,
}

#[wasm_bindgen]
impl Loader {
    /// Of a model that is to be called `name`.
    #[wasm_bindgen(constructor)]
    pub fn new(name: String) -> Self {
        Self { name, files: BTreeMap::new(), incoming: None, preface: None }
    }

    /// Starts a file; `expected` bytes, 0 when unknown. A file that was not ended is dropped. `sum`: compute its
    /// SHA-256 on the way.
    pub fn begin(&mut self, name: String, expected: u32, sum: bool) -> Result<()> {
        self.incoming = None;
        self.incoming = Some(Incoming::new(name, expected as usize, sum).map_err(|e| thrown(&e))?);
        Ok(())
    }

    /// The next bytes of the file started last.
    pub fn write(&mut self, piece: &Uint8Array) -> Result<()> {
        let file = self.incoming.as_mut().ok_or_else(|| thrown(&not_begun()))?;
        file.write(piece).map_err(|e| thrown(&e))
    }

    /// Ends the file started last and keeps it; its SHA-256 in hexadecimal digits, if that was computed.
    pub fn end(&mut self) -> Result<Option<String>> {
        let (name, bytes, sum) = self.incoming.take().ok_or_else(|| thrown(&not_begun()))?.end();
        self.files.insert(name, Blob::Owned(Arc::new(bytes)));
        Ok(sum)
    }

    /// Where a file's bytes are in the module's memory: address and length. They stay there until the file is
    /// forgotten or the loader is done.
    pub fn place(&self, name: &str) -> Vec<u32> {
        let bytes = self.files.get(name).map_or(&[][..], Blob::bytes);
        vec![bytes.as_ptr() as usize as u32, bytes.len() as u32]
    }

    /// Forgets a file.
    pub fn discard(&mut self, name: &str) {
        self.files.remove(name);
    }

    /// The sums in a file in the form of `SHA256SUMS`, as JSON: file name → hexadecimal digits.
    pub fn sums(&self, name: &str) -> Result<String> {
        let bytes = self.files.get(name).map_or(&[][..], Blob::bytes);
        let sums = parse_sums(bytes).map_err(|e| thrown(&e))?;
        let sums: Map<_, _> =
            sums.iter().map(|(name, sum)| ((*name).to_owned(), sum.to_string().into())).collect();
        Ok(Value::Object(sums).to_string())
    }

    /// Checks the configuration alone: whether it is of a supported architecture.
    #[wasm_bindgen(js_name = checkConfig)]
    pub fn check_config(&self) -> Result<()> {
        let read = |files: &ModelFiles| GliClassConfig::from_json(files.read(CONFIG)?.bytes());
        read(&self.model_files()).map(|_| ()).map_err(|e| thrown(&e))
    }

    /// Checks the small files: the configuration's architecture, the tokenizer, and that the two fit. Facts for
    /// people, as JSON.
    pub fn check(&mut self) -> Result<String> {
        let preface = Preface::read(&self.model_files()).map_err(|e| thrown(&e))?;
        let config = preface.config();
        let facts = json!({
            "layers": config.encoder.num_layers,
            "width": config.encoder.d_model,
            "heads": config.encoder.num_heads,
            "vocabulary": config.encoder.vocab_size,
            "scorer": config.scorer.name(),
            "max_labels": config.max_labels,
        });
        self.preface = Some(preface);
        Ok(facts.to_string())
    }

    /// The files that hold the weights, from the files so far.
    #[wasm_bindgen(js_name = weightFiles)]
    pub fn weight_files(&self) -> Result<Vec<String>> {
        weight_files(&self.model_files()).map_err(|e| thrown(&e))
    }

    /// The model on a backend, `cpu` or `webgpu`, from all files. The loader is empty afterwards; after a failure it
    /// still has them, so that another backend can be tried. `progress` is called with the bytes of the upload, done
    /// and in all.
    pub async fn finish(&mut self, backend: String, progress: Function) -> Result<Model> {
        let mut report = |done: u64, total: u64| {
            // What the listener throws is its own affair.
            let _ = progress.call2(&JsValue::NULL, &(done as f64).into(), &(total as f64).into());
        };
        let placed = match backend.as_str() {
            "cpu" => self.read_model().and_then(Model::on_cpu),
            "webgpu" => Model::on_webgpu(|| self.read_model(), &mut report).await,
            other => {
                Err(Error::Unsupported { device: "this build".to_owned(), need: format!("backend {other}") })
            }
        };
        let model = placed.map_err(|e| thrown(&e))?;
        self.files.clear();
        Ok(model)
    }
}

impl Loader {
    fn model_files(&self) -> ModelFiles {
        ModelFiles::from_memory(self.name.clone(), self.files.clone())
    }

    fn read_model(&mut self) -> CoreResult<GliClass> {
        let files = self.model_files();
        let preface = match self.preface.take() {
            Some(preface) => preface,
            None => Preface::read(&files)?,
        };
        GliClass::with_preface(preface, &files)
    }
}

fn not_begun() -> Error {
    Error::Internal("bytes of no file: begin was not called".to_owned())
}
