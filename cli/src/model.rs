//! Opening a model: a folder, or the one compiled into the program.

use std::path::Path;

use dikast_core::checkpoint::ModelFiles;

use crate::exit::{Failure, Result};

/// The files of the model in `dir`, or of the built-in one.
pub(crate) fn open(dir: Option<&Path>) -> Result<ModelFiles> {
    match dir {
        Some(dir) => ModelFiles::open(dir).map_err(Failure::Model),
        None => Ok(dikast_models::gliclass_mini()),
    }
}

/// Whether `config.json` is that of a CLEF model.
pub(crate) fn is_clef(files: &ModelFiles) -> bool {
    let config = files.get("config.json").and_then(|b| serde_json::from_slice(b.bytes()).ok());
    config.is_some_and(|c: serde_json::Value| c.get("model_type").is_some_and(|t| t == "qwen3_5"))
}
