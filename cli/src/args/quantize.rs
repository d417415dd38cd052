//! `quantize`.

use std::path::PathBuf;

use dikast_core::numerics::hadamard::Group;

/// Arguments of `quantize`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The new folder holds everything that the model needs: weights in the layout that ComfyUI and others \
read, configurations, tokenizer, provenance.json, SHA256SUMS. The same source gives the same bytes. Memory does not \
grow with the model.

Example:
  dikast quantize ./clef --scheme int8-convrot ./clef-int8"
)]
pub(crate) struct QuantizeArgs {
    /// Folder of the model in BF16, F16 or F32.
    #[arg(value_name = "SOURCE_DIR")]
    pub(crate) source: PathBuf,
    /// The folder to write; must be missing or empty.
    #[arg(value_name = "OUT_DIR")]
    pub(crate) out: PathBuf,
    /// How the large projections are stored; everything else stays as it is.
    #[arg(long, value_enum)]
    pub(crate) scheme: SchemeName,
    /// Features that are rotated together: 4, 16, 64, 256 or 1024; must divide the rows of every large projection.
    #[arg(long, value_name = "N", value_parser = super::values::group, default_value = "256")]
    pub(crate) group_size: Group,
}

/// `--scheme`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SchemeName {
    /// INT8 with a scale per output channel, rotated in groups, activations quantized per token (ConvRot).
    Int8Convrot,
}
