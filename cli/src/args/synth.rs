//! `synth`.

use std::path::PathBuf;

/// Arguments of `synth`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The weights are random, with the statistics of trained ones: for benchmarks and memory figures \
at full size, never for answers. provenance.json in the folder says so. The same seed gives the same bytes on every \
machine.

Examples:
  dikast synth --like gliclass-multilang-ultra --quant fp8 ./ultra-fp8
  dikast synth --like ./my-model --quant bf16 --seed 7 ./my-model-synthetic
  dikast bench --model ./ultra-fp8"
)]
pub(crate) struct SynthArgs {
    /// The model whose shapes to take: gliclass-multilang-ultra, gliclass-multilang-mini, or the folder of a GLiClass
    /// model with an mT5 encoder, whose config.json and tokenizer.json are then copied.
    #[arg(long, value_name = "NAME|DIR")]
    pub(crate) like: PathBuf,
    /// How the encoder's projections are stored; everything else is BF16.
    #[arg(long, value_enum)]
    pub(crate) quant: Quant,
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
}
