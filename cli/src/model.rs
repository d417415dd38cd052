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
