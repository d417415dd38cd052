//! `eval` and `compare`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::classifier::BackendChoice;

/// Arguments of `eval`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "MODEL is a folder, gliclass-mini or clef-mini. Files of examples, told by their first line:
  JSONL of typed questions   {\"state\": …, \"questions\": {…}, \"expected\": {\"id\": \"option\"}}
  JSONL of texts             {\"text\": …, \"labels\": [\"a\", \"b\"], \"expected\": \"a\"}, or a list where several may be right
  CSV or TSV with a header   text, label; labels, id and set where they are there
  AG News and SIB-200 as published
Lines may have id and set (or domain, kind); figures are given for each set and for all.

Examples:
  dikast eval ./ultra-fp8 --reference ./ultra --data ag_news/test.csv --out report
  dikast eval ./clef-int8 --reference ./clef --data decisions.jsonl --data more.jsonl
  dikast eval gliclass-mini --data eng_Latn/test.tsv --limit 200"
)]
pub(crate) struct EvalArgs {
    /// The model in question.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// The model that it was made from; without it, only what the examples say is right counts.
    #[arg(long, value_name = "MODEL")]
    pub(crate) reference: Option<PathBuf>,
    /// A file of examples; may be given several times.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) data: Vec<PathBuf>,
    /// How the files are written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: DataFormat,
    /// Labels of examples that bring none; for AG News and SIB-200, other words for theirs, in their order.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub(crate) labels: Option<Vec<String>>,
    /// A task description before every text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// Use only the first examples of each file.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,
    /// Write results.json, predictions.jsonl and report.html into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace an earlier report there.
    #[arg(long, requires = "out")]
    pub(crate) overwrite: bool,
    /// Print results.json instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// What runs both models.
    #[arg(long, value_enum, default_value_t, env = "DIKAST_BACKEND")]
    pub(crate) backend: BackendChoice,
    /// Token limit of an example; longer ones are left out and listed.
    #[arg(long, value_name = "N", value_parser = super::values::tokens)]
    pub(crate) max_tokens: Option<NonZeroUsize>,
    /// Examples whose blocks are compared one by one; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) drift_examples: usize,
    /// Examples that the reference runs again in other orders and on other backends; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) noise_examples: usize,
    /// Those other backends; without it, every other one of this machine that is worth it.
    #[arg(long, value_name = "NAME,…", value_enum, value_delimiter = ',')]
    pub(crate) noise_backends: Option<Vec<BackendChoice>>,
}

/// Arguments of `compare`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A and B are folders, gliclass-mini or clef-mini, of one family. Without files, a few built-in \
requests are asked; dikast eval says more.

Example:
  dikast compare ./clef-int8 ./clef --data decisions.jsonl"
)]
pub(crate) struct CompareArgs {
    /// The model in question.
    #[arg(value_name = "A")]
    pub(crate) model: PathBuf,
    /// The one that it is held against.
    #[arg(value_name = "B")]
    pub(crate) reference: PathBuf,
    /// A file of examples, as for `dikast eval`; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Vec<PathBuf>,
    /// Use only the first examples of each file.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,
    /// What runs both models.
    #[arg(long, value_enum, default_value_t, env = "DIKAST_BACKEND")]
    pub(crate) backend: BackendChoice,
}

/// `--format` of examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum DataFormat {
    /// Told by the first line.
    #[default]
    Auto,
    /// JSON objects, one a line.
    Jsonl,
    /// CSV with a header.
    Csv,
    /// CSV with tabs.
    Tsv,
    /// AG News: class index, title, description.
    AgNews,
    /// SIB-200: index_id, category, text.
    #[value(name = "sib-200")]
    Sib200,
}
