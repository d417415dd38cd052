//! A checkpoint, file by file.

use std::collections::BTreeMap;
use std::sync::Arc;

use dikast_core::checkpoint::{Blob, ModelFiles, parse_sums, weight_files};
use dikast_core::models::clef::{Clef, ClefPreface};
use dikast_core::models::gliclass::{GliClass, Preface};
use dikast_core::{Error, Result as CoreResult};
use js_sys::{Function, Uint8Array};
use serde_json::{Map, Value};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::error::{Result, thrown};
use crate::family::{Family, Small};
use crate::incoming::Incoming;
use crate::model::{Model, On};

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
    small: Kind,
}

/// The model family, with its small files once they are checked.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a loader has one")]
enum Kind {
    Classifier(Option<Preface>),
    Decider(Option<ClefPreface>),
}

#[wasm_bindgen]
impl Loader {
    /// Of a model that is to be called `name`; `family` is `classifier` or `decider`.
    #[wasm_bindgen(constructor)]
    pub fn new(name: String, family: &str) -> Result<Self> {
        let small = match family {
            "classifier" => Kind::Classifier(None),
            "decider" => Kind::Decider(None),
            other => return Err(thrown(&Error::Internal(format!("no model family {other:?}")))),
        };
        Ok(Self { name, files: BTreeMap::new(), incoming: None, small })
    }

    /// The files that [`Loader::check`] reads, in order.
    #[wasm_bindgen(js_name = smallFiles)]
    pub fn small_files(&self) -> Vec<String> {
        let names = match self.small {
            Kind::Classifier(_) => Preface::FILES,
            Kind::Decider(_) => <ClefPreface as Small>::FILES,
        };
        names.iter().map(|name| (*name).to_owned()).collect()
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

    /// Checks the configuration alone: whether it is of the family's architecture.
    #[wasm_bindgen(js_name = checkConfig)]
    pub fn check_config(&self) -> Result<()> {
        let files = self.model_files();
        let config = files.read(CONFIG).map_err(|e| thrown(&e))?.bytes();
        match self.small {
            Kind::Classifier(_) => Preface::check_config(config),
            Kind::Decider(_) => ClefPreface::check_config(config),
        }
        .map_err(|e| thrown(&e))
    }

    /// Checks the small files, each by itself and that they fit. Facts for people, as JSON.
    pub fn check(&mut self) -> Result<String> {
        let files = self.model_files();
        match &mut self.small {
            Kind::Classifier(small) => check(small, &files),
            Kind::Decider(small) => check(small, &files),
        }
        .map_err(|e| thrown(&e))
    }

    /// The files that hold the weights, from the files so far. After [`Loader::check`].
    #[wasm_bindgen(js_name = weightFiles)]
    pub fn weight_files(&self) -> Result<Vec<String>> {
        let mut files = weight_files(&self.model_files()).map_err(|e| thrown(&e))?;
        let side = match &self.small {
            Kind::Classifier(small) => small.as_ref().map(Small::side_files),
            Kind::Decider(small) => small.as_ref().map(Small::side_files),
        };
        for file in side.unwrap_or_default() {
            // An index may list it as one of its shards.
            if !files.contains(&file) {
                files.push(file);
            }
        }
        Ok(files)
    }

    /// The model on a backend, `cpu` or `webgpu`, from all files. The loader is empty afterwards; after a failure it
    /// still has them, so that another backend can be tried. `progress` is called with the bytes of the upload, done
    /// and in all.
    pub async fn finish(&mut self, backend: String, progress: Function) -> Result<Model> {
        let mut report = |done: u64, total: u64| {
            // What the listener throws is its own affair.
            let _ = progress.call2(&JsValue::NULL, &(done as f64).into(), &(total as f64).into());
        };
        let files = self.model_files();
        let placed = match &mut self.small {
            Kind::Classifier(small) => place::<GliClass>(small, &files, &backend, &mut report).await,
            Kind::Decider(small) => place::<Clef>(small, &files, &backend, &mut report).await,
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
}

fn check<S: Small>(small: &mut Option<S>, files: &ModelFiles) -> CoreResult<String> {
    let read = S::read(files)?;
    let facts = read.facts().to_string();
    *small = Some(read);
    Ok(facts)
}

async fn place<M>(
    small: &mut Option<M::Preface>,
    files: &ModelFiles,
    backend: &str,
    report: &mut dyn FnMut(u64, u64),
) -> CoreResult<Model>
where
    M: Family<Preface: Small>,
    Model: From<On<M>>,
{
    let mut open = || {
        let preface = match small.take() {
            Some(preface) => preface,
            None => M::Preface::read(files)?,
        };
        M::open(preface, files)
    };
    match backend {
        "cpu" => On::cpu(open()?),
        "webgpu" => On::webgpu(open, report).await,
        other => {
            Err(Error::Unsupported { device: "this build".to_owned(), need: format!("backend {other}") })
        }
    }
    .map(Model::from)
}

fn not_begun() -> Error {
    Error::Internal("bytes of no file: begin was not called".to_owned())
}
