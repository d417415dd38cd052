//! The fixtures of this folder.

use std::path::{Path, PathBuf};

/// `tests/data`.
pub fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// The tiny GLiClass fixtures.
pub fn gliclass_tiny() -> PathBuf {
    data_dir().join("gliclass-tiny")
}

/// The embedded model's folder with its evaluation data.
pub fn gliclass_mini() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/gliclass-mini")
}

/// The folder of the embedded model for typed questions, with its evaluation data.
pub fn clef_mini() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/clef-mini")
}

/// The variants with an mT5 backbone.
pub const MT5_VARIANTS: [&str; 9] = [
    "cross-attn-alltext",
    "hopfield-max",
    "lstm-simple-max",
    "mlp-last",
    "mlp-segments-avgclass",
    "simple-avg-textfirst",
    "simple-normalized",
    "simple-rms-textfeat",
    "weighted-dot-first",
];
