//! `synth`.

use std::path::PathBuf;

use dikast_core::numerics::hadamard::Group;

/// Arguments of `synth`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The weights are random, with the statistics of trained ones: for benchmarks and memory figures \
at full size, never for answers. provenance.json in the folder says so. The same seed gives the same bytes on every \
machine.

Examples:
  dikast synth --like gliclass-multilang-ultra --quant fp8 ./ultra-fp8
  dikast synth --like clef-27b --quant int8-convrot ./clef-27b-int8
  dikast synth --like ./my-model --quant bf16 --seed 7 ./my-model-synthetic
  dikast bench --model ./ultra-fp8"
)]
pub(crate) struct SynthArgs {
    /// The model whose shapes to take: gliclass-multilang-ultra, gliclass-multilang-mini, clef-27b, clef-9b, or the
    /// folder of a CLEF model or of a GLiClass model with an mT5 encoder, whose configuration and tokenizer are then
    /// copied.
    #[arg(long, value_name = "NAME|DIR")]
    pub(crate) like: PathBuf,
    /// How the large projections are stored; everything else is BF16. GLiClass: bf16, fp8. CLEF: bf16, int8-convrot.
    #[arg(long, value_enum)]
    pub(crate) quant: Quant,
    /// Features that are rotated together with int8-convrot: 4, 16, 64, 256 or 1024.
    #[arg(long, value_name = "N", value_parser = super::values::group, default_value = "256")]
    pub(crate) group_size: Group,
    /// Every number follows from the seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Replace an earlier output of this command.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// The folder to write; must be missing or empty.
    #[arg(value_name = "OUT_DIR")]
    pub(crate) out: PathBuf,
}

/// `--quant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Quant {
    /// BF16.
    Bf16,
    /// E4M3 with a scale per output channel, activations quantized per token (FP8_DYNAMIC).
    Fp8,
    /// INT8 with a scale per output channel, rotated in groups, activations quantized per token (ConvRot).
    Int8Convrot,
}
