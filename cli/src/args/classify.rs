//! Arguments of `classify`: what to ask, what to show, and the batch form.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use super::{ModelArgs, values};
use crate::exit;
use crate::request::ROW_FIELDS;

const EXAMPLES: &str = "Examples:
  dikast classify --text 'The battery died after a week.' --labels praise,complaint,question
  git log -1 --format=%B | dikast classify --labels fix,feature,docs --format json
  dikast classify --file mail.txt --labels @labels.json --multi-label --threshold 0.4
  dikast classify --text … --labels '{\"tone\": [\"calm\", \"angry\"], \"topic\": [\"bill\", \"repair\"]}' --hierarchy tree
  dikast classify --input rows.jsonl --output answers.jsonl --labels a,b,c
  dikast classify --input rows.jsonl --output answers.jsonl --labels a,b,c --resume
  dikast classify --input - --output - --input-format csv --text-column body --labels a,b < mails.csv";

const OUTPUT: &str = "JSON output:
  {\"model\", \"backend\", \"mode\": \"single-label\" or \"multi-label\",
   \"labels\": [{\"label\", \"score\", \"logit\", \"chosen\"}], best first; logit is null for chunked texts,
   \"tree\": with --hierarchy tree, \"tokens\", \"dropped_text_tokens\",
   \"cut_labels\": [names of labels that --truncate right cut off or cut short: their scores mean nothing]}

Batch output, JSONL: one object a row, in input order
  {\"row\": 0, \"id\", \"label\": the best chosen one or null, \"score\", \"labels\": as above,
   \"tokens\", \"dropped_text_tokens\", \"cut_labels\", \"kept\": {fields of --keep}}
  {\"row\": 1, \"id\", \"error\": {\"kind\", \"message\"}, \"kept\"}
Batch output, CSV: the columns
  row,id,label,score,chosen,labels,error_kind,error_message,dropped_text_tokens,cut_labels and those of --keep;
  chosen, labels and cut_labels are JSON

Batch input:
  A row is at most 8 MiB long. CSV labels are written as for --labels, but never name a file.

Labels of a row:
  Without --labels they stand in the field labels, or in the one that --labels-field names.
  With --labels and --labels-field, the row's labels win; a row that has none is judged by --labels.
  With --labels alone, a row whose field labels says something else gets an error record: --labels-field labels
  judges by the row's labels, --ignore-field labels by those of the flag.

Resuming:
  Until a run is finished, OUTPUT.dikast.json beside its output says what was asked and how much of the input was
  read. --resume refuses to continue when one of the two has changed, or when that file is missing and rows are left;
  --force continues all the same. The backend may change: backends agree to rounding.";

/// The flags of the one-text form. Batch flags name them because clap does not ask for `--input` when another flag
/// already excludes it.
const ONE_TEXT: [&str; 2] = ["text", "file"];

/// Arguments of `classify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{OUTPUT}\n\n{}", exit::CODES))]
pub(crate) struct ClassifyArgs {
    /// The text. Without --text, --file and --input it is read from standard input.
    #[arg(long, short, value_name = "TEXT", conflicts_with_all = ["file", "input"], help_heading = "Input")]
    pub(crate) text: Option<String>,
    /// Read the text from a file (UTF-8); `-` is standard input. One line end at the end is dropped.
    #[arg(long, short, value_name = "FILE", conflicts_with = "input", help_heading = "Input")]
    pub(crate) file: Option<PathBuf>,
    /// Labels: `a,b,c`, JSON (`["a, b", "c"]`, or `{"topic": ["a", "b"]}` for a hierarchy), or `@FILE`.
    ///
    /// May be given several times. A file holds JSON, or one label a line. A label with a comma needs JSON or a
    /// file; spaces at its ends need JSON.
    #[arg(long, short, value_name = "LABELS", required_unless_present = "input", help_heading = "Input")]
    pub(crate) labels: Vec<String>,

    /// Any number of labels may be right (sigmoid); without it exactly one is (softmax).
    #[arg(long, short, help_heading = "Question")]
    pub(crate) multi_label: bool,
    /// Multi-label: choose labels with at least this score.
    #[arg(long, value_name = "0..1", default_value = "0.5", value_parser = values::probability,
          requires = "multi_label", help_heading = "Question")]
    pub(crate) threshold: f32,
    /// A task description for the model.
    #[arg(long, short, value_name = "TEXT", help_heading = "Question")]
    pub(crate) prompt: Option<String>,
    /// Solved examples as JSON (`[{"text": "…", "labels": ["…"]}]`) or `@FILE` with JSON or JSONL.
    #[arg(long, value_name = "EXAMPLES", help_heading = "Question")]
    pub(crate) examples: Option<String>,
    /// What to do with input over the token limit.
    #[arg(long, value_enum, default_value_t, help_heading = "Question")]
    pub(crate) truncate: Truncate,
    /// Token limit of labels, prompt, examples and text together.
    #[arg(long, value_name = "N", value_parser = values::tokens, help_heading = "Question")]
    pub(crate) max_tokens: Option<NonZeroUsize>,
    /// Splitting of long texts.
    #[command(flatten)]
    pub(crate) chunk: ChunkArgs,
    /// Accept the same label twice; each occurrence gets a score of its own.
    #[arg(long, help_heading = "Question")]
    pub(crate) allow_duplicate_labels: bool,
    /// Accept labels that are empty or that the model cannot see, such as blanks alone.
    #[arg(long, help_heading = "Question")]
    pub(crate) allow_empty_labels: bool,
    /// Accept the model's marker texts, such as `<<LABEL>>`, inside text and labels.
    #[arg(long, help_heading = "Question")]
    pub(crate) allow_markers: bool,
    /// Answer an empty text without ado; otherwise there is a warning, and in a batch an error record instead.
    #[arg(long, help_heading = "Question")]
    pub(crate) allow_empty: bool,

    /// The model and what runs it.
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Show only the K best labels.
    #[arg(long, short = 'k', value_name = "K", help_heading = "Output")]
    pub(crate) top_k: Option<NonZeroUsize>,
    /// Output format [default: table; with --input by the name of the output file, else jsonl].
    #[arg(long, value_enum, help_heading = "Output")]
    pub(crate) format: Option<Format>,
    /// Shape of the answer to a hierarchy of labels; `tree` is shown by table and json.
    #[arg(long, value_enum, default_value_t, conflicts_with = "input", help_heading = "Output")]
    pub(crate) hierarchy: Shape,
    /// Show logits in the table (JSON always has them).
    #[arg(long, conflicts_with = "input", help_heading = "Output")]
    pub(crate) logits: bool,

    /// The batch form.
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
}

/// Splitting of long texts.
#[derive(Debug, Args)]
pub(crate) struct ChunkArgs {
    /// Judge a long text window by window, and long label lists group by group; keeps each label's best score.
    #[arg(long, help_heading = "Question")]
    pub(crate) chunk: bool,
    /// Characters in a window [default: as many as fit the token limit].
    ///
    /// The default starts at 3 characters for each token of the limit and is halved until every window of the text
    /// fits. A number given here is taken as it is; a window over the limit is then refused, or cut by --truncate.
    /// The reference pipeline uses 8192 with an overlap of 256.
    #[arg(long, value_name = "N", requires = "chunk", help_heading = "Question")]
    pub(crate) chunk_chars: Option<usize>,
    /// Characters that neighbouring windows share [default: a quarter of a window, at most 256].
    #[arg(long, value_name = "N", requires = "chunk", help_heading = "Question")]
    pub(crate) chunk_overlap: Option<usize>,
    /// Labels in a group.
    #[arg(long, value_name = "N", default_value = "8", requires = "chunk", help_heading = "Question")]
    pub(crate) chunk_labels: usize,
}

/// The batch form of `classify`.
#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    /// Classify every row of a JSONL or CSV file; `-` is standard input.
    ///
    /// A JSONL row is an object with `text` and optionally `labels`, `id`, `multi_label`, `threshold`, `prompt`,
    /// `examples`, …. A row's fields win over the flags, except that --labels and the field `labels` must agree
    /// unless --labels-field or --ignore-field says which one holds. Rows are numbered from 0; blank lines and the CSV
    /// header do not count.
    #[arg(long, short, value_name = "FILE", help_heading = "Batch")]
    pub(crate) input: Option<PathBuf>,
    /// Where the answers go, one a row in input order; `-` is standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-", requires = "input", conflicts_with_all = ONE_TEXT, help_heading = "Batch")]
    pub(crate) output: PathBuf,
    /// Format of the input [default: by the name of the file, else jsonl].
    #[arg(long, value_enum, requires = "input", conflicts_with_all = ONE_TEXT, help_heading = "Batch")]
    pub(crate) input_format: Option<InputFormat>,
    /// Field or column with the text.
    #[arg(
        long,
        visible_alias = "text-column",
        value_name = "NAME",
        default_value = "text",
        requires = "input", conflicts_with_all = ONE_TEXT,
        help_heading = "Batch"
    )]
    pub(crate) text_field: String,
    /// Field or column with the row's own labels, which win over --labels [default: labels].
    ///
    /// Data sets often keep their gold answers in `labels`. With --labels that field is therefore not used unless it is
    /// named here, and a row where it says something else than --labels gets an error record.
    #[arg(
        long,
        visible_alias = "labels-column",
        value_name = "NAME",
        requires = "input", conflicts_with_all = ONE_TEXT,
        help_heading = "Batch"
    )]
    pub(crate) labels_field: Option<String>,
    /// Leave this field or column of the rows alone: the flags hold. May be given several times.
    #[arg(long, value_name = "NAME", value_parser = ignorable(), requires = "input", conflicts_with_all = ONE_TEXT,
          help_heading = "Batch")]
    pub(crate) ignore_field: Vec<String>,
    /// Field or column with the row's id, copied to the output [default: id, where present].
    #[arg(
        long,
        visible_alias = "id-column",
        value_name = "NAME",
        requires = "input", conflicts_with_all = ONE_TEXT,
        help_heading = "Batch"
    )]
    pub(crate) id_field: Option<String>,
    /// Copy this field or column to the output; may be given several times.
    #[arg(long, value_name = "NAME", requires = "input", conflicts_with_all = ONE_TEXT, help_heading = "Batch")]
    pub(crate) keep: Vec<String>,
    /// CSV delimiter of input and output [default: a tab for files named .tsv, else a comma].
    #[arg(long, value_name = "CHAR", value_parser = values::delimiter, requires = "input", conflicts_with_all = ONE_TEXT,
          help_heading = "Batch")]
    pub(crate) delimiter: Option<u8>,
    /// Continue an interrupted output file: keep its rows, drop a half-written last one, append the rest.
    ///
    /// Refused when the flags, the model or the input are not those of the interrupted run.
    #[arg(long, requires = "input", conflicts_with_all = ONE_TEXT, conflicts_with = "overwrite", help_heading = "Batch")]
    pub(crate) resume: bool,
    /// With --resume: continue although the flags, the model or the input have changed, or are not known.
    #[arg(long, requires = "resume", help_heading = "Batch")]
    pub(crate) force: bool,
    /// Replace an existing output file.
    #[arg(long, requires = "input", conflicts_with_all = ONE_TEXT, help_heading = "Batch")]
    pub(crate) overwrite: bool,
    /// No progress and no summary on standard error.
    #[arg(long, short, requires = "input", conflicts_with_all = ONE_TEXT, help_heading = "Batch")]
    pub(crate) quiet: bool,
}

/// The values of `--ignore-field`.
fn ignorable() -> PossibleValuesParser {
    PossibleValuesParser::new(["labels"].into_iter().chain(ROW_FIELDS))
}

/// `--truncate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Truncate {
    /// Refuse it and say by how much.
    #[default]
    Refuse,
    /// Drop the end of the text, never a label, the prompt or an example.
    Text,
    /// Cut everything on the right, labels too, as the reference does; labels that were cut are named.
    Right,
}

/// `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Labels with bars, for people.
    Table,
    /// One indented JSON object.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// CSV with a header; batch only.
    Csv,
}

/// `--input-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// One JSON object a line.
    Jsonl,
    /// CSV with a header.
    Csv,
}

/// `--hierarchy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Shape {
    /// A ranking of dotted names.
    #[default]
    Flat,
    /// The scores in the shape of the labels.
    Tree,
}
