//! Opening a model: a folder, or the one compiled into the program.

use std::path::Path;

use dikast_core::checkpoint::ModelFiles;

use crate::exit::{Failure, Result};

/// The files of the model in `dir`, or of the built-in one.
pub(crate) fn open(dir: Option<&Path>) -> Result<ModelFiles> {
    match dir {
        // An empty DIKAST_MODEL means the same as none.
        Some(dir) if !dir.as_os_str().is_empty() => ModelFiles::open(dir).map_err(Failure::Model),
        _ => Ok(dikast_models::gliclass_mini()),
    }
}
