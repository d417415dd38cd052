//! What was done.

use serde::{Deserialize, Serialize};

use crate::write::WrittenFile;

/// What was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Every file of the new folder, `SHA256SUMS` left out.
    pub files: Vec<WrittenFile>,
    /// Bytes of the weights before.
    pub source_bytes: u64,
    /// Bytes of the weight files after.
    pub bytes: u64,
    /// Numbers of the model, scales left out.
    pub parameters: u64,
    /// Matrices that were quantized.
    pub quantized: usize,
    /// Weight files that an interrupted run had completed.
    pub resumed: usize,
    /// The error of each matrix that was quantized by its own largest values, in the order of the model.
    pub errors: Vec<MatrixError>,
}

/// How far the codes of a matrix are from its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixError {
    /// The module.
    pub module: String,
    /// `‖Ŵ − W‖₂ / ‖W‖₂`.
    pub relative_l2: f64,
}
