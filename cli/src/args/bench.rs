//! `bench`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::ModelArgs;

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Measures the forward pass over a packed batch of made-up sequences, and for batch 1 the whole \
request too, from the text to the answer. What the machine can do at most (a large copy, large products) is measured \
in the same run.

Examples:
  dikast bench
  dikast bench --model ./ultra-fp8 --tokens 64,256 --batch 1 --profile
  dikast bench --json now.json --compare before.json"
)]
pub(crate) struct BenchArgs {
    /// The model.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Tokens of a sequence, labels included.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64,128,192,256")]
    pub(crate) tokens: Vec<NonZeroUsize>,
    /// Sequences of one forward pass.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,8,32")]
    pub(crate) batch: Vec<NonZeroUsize>,
    /// Measure the requests of a JSONL file (objects with `text` and `labels`; other fields are not looked at, one
    /// label is right) instead of made-up sequences; a run is one pass over the file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tokens", "labels", "profile", "compare", "seed"])]
    pub(crate) requests: Option<PathBuf>,
    /// Labels of each sequence.
    #[arg(long, value_name = "N", default_value = "8")]
    pub(crate) labels: NonZeroUsize,
    /// Runs that are not counted, before those that are.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) warmup: usize,
    /// Runs of each measurement.
    #[arg(long, value_name = "N", default_value = "50")]
    pub(crate) runs: NonZeroUsize,
    /// End a measurement after so many seconds, but not before it has 5 runs.
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub(crate) seconds: u32,
    /// Where the made-up sequences come from; the same seed, the same sequences.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Time each step as well, and say how near it is to the bound of its bytes and products.
    #[arg(long)]
    pub(crate) profile: bool,
    /// Write everything measured to a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Print ratios to an earlier --json file.
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
}
