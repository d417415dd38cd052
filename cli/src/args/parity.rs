//! Arguments of `parity`.

use std::path::PathBuf;

use crate::classifier::BackendChoice;

/// Arguments of `parity`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dikast parity
  dikast parity --backend wgpu --steps
  dikast parity --backend cuda --against wgpu
  dikast parity --model ./my-model --backend cuda --html report.html --json report.json

Every step's own operands are given to its definition, the CPU's, and the results compared; the logits of the whole
forward pass are compared besides, and the bits of each request alone and in a batch. The exit code is 6 when anything
is out of its contract.")]
pub(crate) struct ParityArgs {
    /// Folder of a model of either family; without it, both built-in models.
    #[arg(long, value_name = "DIR", env = "DIKAST_MODEL")]
    pub(crate) model: Option<PathBuf>,
    /// What is judged; auto: every GPU backend that opens on this machine.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: BackendChoice,
    /// Whose logits the judged ones are compared with; the definition of each step is the CPU's in any case.
    #[arg(long, value_name = "BACKEND", value_enum, default_value_t = BackendChoice::Cpu)]
    pub(crate) against: BackendChoice,
    /// Rotate CLEF's INT8 operands in integers, which every device does bit for bit, instead of in f32.
    #[arg(long)]
    pub(crate) exact: bool,
    /// Hold the device to the bounds of f32, also where it may multiply in 16 bits.
    #[arg(long)]
    pub(crate) strict: bool,
    /// List every step instead of a summary by kind.
    #[arg(long)]
    pub(crate) steps: bool,
    /// Write the reports as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the reports as pages: one for each model and backend, numbered from the second on.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
