//! The models to serve and the device of each.

use std::path::Path;

use dikast_core::checkpoint::ModelFiles;
use dikast_server::ModelSource;

use crate::classifier::{self, BackendChoice};
use crate::exit::{Failure, Result};

/// One source a `NAME=DIR` or `DIR`; without any, the built-in models.
pub(super) fn sources(asked: &[String], backend: BackendChoice, devices: usize) -> Result<Vec<ModelSource>> {
    if asked.is_empty() {
        let built_in = [dikast_models::clef_mini(), dikast_models::gliclass_mini()];
        return Ok(built_in
            .into_iter()
            .map(|files| source(files.name().to_owned(), files, backend, devices))
            .collect());
    }
    asked.iter().map(|text| one(text, backend, devices)).collect()
}

fn one(text: &str, backend: BackendChoice, devices: usize) -> Result<ModelSource> {
    let (name, dir) = match text.split_once('=') {
        Some((name, dir)) => (Some(name.trim()), dir),
        None => (None, text),
    };
    if name.is_some_and(str::is_empty) || dir.is_empty() {
        return Err(Failure::usage(format!("--model {text}: NAME=DIR or DIR is allowed")));
    }
    let files = ModelFiles::open(Path::new(dir)).map_err(Failure::Model)?;
    let name = name.unwrap_or(files.name()).to_owned();
    Ok(source(name, files, backend, devices))
}

fn source(name: String, files: ModelFiles, backend: BackendChoice, devices: usize) -> ModelSource {
    match classifier::resolved(backend, weight_bytes(&files)) {
        BackendChoice::Wgpu => ModelSource::on_devices(name, files, devices, |_| classifier::open_device()),
        BackendChoice::Cuda => ModelSource::on_devices(name, files, devices, classifier::open_cuda_at),
        BackendChoice::Auto | BackendChoice::Cpu => {
            ModelSource::on_devices(name, files, devices, |_| classifier::open_cpu())
        }
    }
}

fn weight_bytes(files: &ModelFiles) -> u64 {
    let weights = files.names().filter(|name| name.ends_with(".safetensors"));
    weights.filter_map(|name| files.get(name)).map(|blob| blob.bytes().len() as u64).sum()
}
