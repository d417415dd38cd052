//! `quantize`.

use std::path::PathBuf;

use dikast_core::numerics::hadamard::Group;

/// Arguments of `quantize`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The new folder holds everything that the model needs: weights in the layout that ComfyUI and others \
read (INT8) or compressed-tensors' readers (FP8), configurations, tokenizer, a model card, provenance.json, SHA256SUMS. \
The same source gives the same bytes. Memory does not grow with the model. A run that was interrupted goes on where it \
stopped when the same command is given again.

Examples:
  dikast quantize ./clef ./clef-int8 --scheme int8-convrot
  dikast quantize ./gliclass-ultra ./ultra-fp8 --scheme fp8-w8a8 --keep '*.block.0.*'
  dikast quantize ./clef ./clef-int8 --scheme int8-convrot --calibrate some.jsonl --report others.jsonl"
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
    /// Features that are rotated together, of int8-convrot: 4, 16, 64, 256 (the default) or 1024; must divide the rows of
    /// every large projection.
    #[arg(long, value_name = "N", value_parser = super::values::group)]
    pub(crate) group_size: Option<Group>,
    /// Leave the large projections whose module matches as they are; `*` is any text, `?` any character. May be given
    /// several times.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) keep: Vec<String>,
    /// Find the codes from what the model sees on the examples of a JSONL file of typed questions (CLEF, on the CPU, for
    /// small models); may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) calibrate: Vec<PathBuf>,
    /// Steps of the calibration with commas between: smooth, search, clip, target, gptq, refit, bias, and rescue=N, which
    /// leaves the N products as they were whose codes cost most, or rescue=P%, so many that they hold no more than P percent
    /// of the numbers; all is every one that chooses nothing by answers, none is none. Target and refit follow the examples
    /// closely: measure with --report whether they help.
    #[arg(long, value_name = "STEPS", default_value_t = dikast_quantize::Steps::default().to_string(), requires = "calibrate")]
    pub(crate) recipe: String,
    /// Examples by which search and rescue choose; none of the others. Without it, every fifth of --calibrate.
    #[arg(long, value_name = "FILE", requires = "calibrate")]
    pub(crate) select: Vec<PathBuf>,
    /// Examples on which the result is measured, beside the scheme without calibration; none of the others.
    #[arg(long, value_name = "FILE", requires = "calibrate")]
    pub(crate) report: Vec<PathBuf>,
    /// Quantize a model again that is quantized already, from the numbers that its codes stand for.
    #[arg(long, conflicts_with = "calibrate")]
    pub(crate) requantize: bool,
}

/// `--scheme`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SchemeName {
    /// E4M3 with a BF16 scale per output channel, activations quantized per token; GLiClass.
    #[value(name = "fp8-w8a8")]
    Fp8W8a8,
    /// INT8 with a scale per output channel, activations quantized per token; CLEF.
    Int8,
    /// The same, rotated in groups (ConvRot); CLEF.
    Int8Convrot,
}
