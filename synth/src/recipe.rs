//! What to write, and what was written.

use dikast_core::checkpoint::ModelFiles;
use dikast_core::numerics::hadamard::Group;
use serde_json::Value;

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(crate) const PROVENANCE: &str = "provenance.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";

/// How the large projections are stored; everything else is BF16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// BF16.
    Bf16,
    /// E4M3 codes with a BF16 scale per output channel (compressed-tensors FP8_DYNAMIC).
    Fp8,
    /// INT8 codes with an F32 scale per output channel, rotated in groups (ConvRot).
    Int8ConvRot {
        /// Features that are rotated together.
        group: Group,
    },
}

impl Format {
    /// The name in flags and in `provenance.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8ConvRot { .. } => "int8-convrot",
        }
    }
}

/// What to write.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// `config.json`; what it says of a quantization is replaced by `format`.
    pub config: Value,
    /// How the large projections are stored.
    pub format: Format,
    /// Every number follows from it and from the tensor's name.
    pub seed: u64,
    /// A model whose tokenizer goes along; without one, a made-up tokenizer of the right size is written.
    pub tokenizer: Option<ModelFiles>,
    /// The name of the preset or of the folder that the configuration came from, for `provenance.json`.
    pub like: String,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the weight files.
    pub bytes: u64,
    /// Numbers of the model, scales of quantized weights left out.
    pub parameters: u64,
}
