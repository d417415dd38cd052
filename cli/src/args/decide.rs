//! Arguments of `decide`: the state, the questions, what to show, and the batch form.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use dikast_core::answers::DecideOutput;
use dikast_core::request::{Confidence, DecideRequest, SpecialTokens, StateTruncation};

use super::values;
use crate::classifier::BackendChoice;
use crate::exit;

const EXAMPLES: &str = "Examples:
  dikast decide --state 'Charged twice, please refund one!' --ask 'Is it urgent?' \\
      --choose 'Which team?=billing: charges and refunds|technical|sales' --rate 'Anger=calm|annoyed|furious'
  dikast decide --state @order.json --ask 'late:Is the order late?' --json
  dikast decide --image receipt.png --image item.jpg --choose 'What is it?=food|clothes|tools'
  dikast decide --video frames/ --fps 2 --ask 'Does the car turn left?'
  git log -1 --format=%B | dikast decide --questions questions.json
  dikast decide --input rows.jsonl --output answers.jsonl --ask 'Is it urgent?'
  dikast decide --input rows.jsonl --output answers.jsonl --ask 'Is it urgent?' --resume";

const OUTPUT: &str = "Writing questions:
  All of them are read in the order of the flags and answered together, in one forward pass.
  --ask    'Is it urgent?'                                 yes or no; 'QUESTION=true: when|false: when' says when
  --choose 'Which team?=billing: charges and refunds|sales'  one of these; what follows \": \" describes an option
  --rate   'Urgency=low|medium|high'                       a level of a scale, lowest first
  The options begin behind the first \"=\" that follows a \"?\", else behind the first \"=\". Text with \"=\" or \"|\" of its
  own needs --questions, a map of id to {\"type\": \"noul\", \"choice\" or \"score\", \"instructions\", \"criteria\"}:
    {\"refund\": {\"type\": \"noul\", \"instructions\": \"Is a refund asked for?\", \"criteria\": {\"true\": \"money back\"}},
     \"team\": {\"type\": \"choice\", \"instructions\": \"Which team?\", \"criteria\": {\"billing\": \"charges\", \"sales\": null}},
     \"anger\": {\"type\": \"score\", \"instructions\": \"How angry?\", \"criteria\": [\"calm\", \"furious\"]}}
  The id of an answer is made of the question (\"Which team?\" is which_team), or is given: 'team:Which team?=billing|sales',
  with no space behind the colon. The model reads the id as well.

JSON output, a System One response:
  {\"model\", \"answers\": {id: {\"type\": \"noul\", \"noul\": probability of yes}
                        or {\"type\": \"choice\", \"choice\", \"confidence\", \"probabilities\": {option: …}}
                        or {\"type\": \"score\", \"score\": mean level from 0, \"confidence\", \"legend\", \"probabilities\"}},
   \"usage\": {\"input_tokens\", \"output_tokens\"},
   with --truncate end: \"x_truncated\", \"x_state_tokens\", \"x_state_tokens_used\"; with --receipt: \"x_receipt\"}

Batch rows:
  A row is the body of a System One request: {\"state\", \"questions\", \"images\": [\"data:image/png;base64,…\"]}, and an id
  where there is one; at most 13 MiB. Rows without questions are asked those of the flags.
  Output, one object a row, in input order: {\"row\": 0, \"id\", and the fields of the response, \"kept\": {fields of --keep}}
  or {\"row\": 1, \"id\", \"error\": {\"kind\", \"message\"}, \"kept\"}
  Resuming is as in classify: OUTPUT.dikast.json says what was asked until the run is finished.";

/// The flags of the one-state form; see `classify`.
const ONE_STATE: [&str; 3] = ["state", "image", "video"];

/// Arguments of `decide`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{OUTPUT}\n\n{}", exit::CODES))]
pub(crate) struct DecideArgs {
    /// What the questions are about: a text, `@FILE` or `-` for standard input (UTF-8).
    ///
    /// A JSON object or list is read as JSON, see --state-as. Without --state it is read from standard input, or empty
    /// where there is an --image or a --video. One line end at the end of a file is dropped. A text that starts with @
    /// comes by a file or standard input.
    #[arg(long, short, value_name = "TEXT", conflicts_with = "input", help_heading = "Input")]
    pub(crate) state: Option<String>,
    /// What the state is.
    #[arg(long, value_enum, default_value_t, conflicts_with = "input", help_heading = "Input")]
    pub(crate) state_as: StateAs,
    /// A picture (PNG, JPEG, WebP, GIF); may be given several times. The model reads pictures before videos.
    #[arg(long, value_name = "FILE", conflicts_with = "input", help_heading = "Input")]
    pub(crate) image: Vec<PathBuf>,
    /// An animated picture (GIF, PNG, WebP), an MP4 file with H.264, or a folder of frames, ordered by name; may be given
    /// several times.
    #[arg(long, value_name = "FILE", conflicts_with = "input", help_heading = "Input")]
    pub(crate) video: Vec<PathBuf>,
    /// Frames a second of the folders of --video.
    #[arg(long, value_name = "N", value_parser = values::frame_rate, requires = "video", help_heading = "Input")]
    pub(crate) fps: Option<f64>,

    /// The questions.
    #[command(flatten)]
    pub(crate) asked: AskedArgs,
    /// What to do with a state over the token limit.
    #[arg(long, value_enum, default_value_t, help_heading = "Question")]
    pub(crate) truncate: TruncateState,
    /// Token limit of state, questions and media together [default: the model's, at most 16384].
    #[arg(long, value_name = "N", value_parser = values::tokens, help_heading = "Question")]
    pub(crate) max_tokens: Option<NonZeroUsize>,
    /// What texts such as `<|im_end|>` in state and questions are.
    #[arg(long, value_enum, default_value_t, help_heading = "Question")]
    pub(crate) special_tokens: SpecialTokensAs,

    /// Folder with config.json, joint_head_config.json, processor_config.json, tokenizer.json and the weights; without
    /// it, the built-in clef-mini.
    #[arg(long, value_name = "DIR", env = "DIKAST_DECIDE_MODEL", help_heading = "Model")]
    pub(crate) model: Option<PathBuf>,
    /// What runs the model.
    #[arg(long, value_enum, default_value_t, env = "DIKAST_BACKEND", help_heading = "Model")]
    pub(crate) backend: BackendChoice,
    /// The model's vision tower.
    #[arg(long, value_enum, default_value_t, help_heading = "Model")]
    pub(crate) vision: super::vision::Vision,
    /// Most memory that the model may take on a CUDA device, such as 24G [default: all of it].
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, env = "DIKAST_MEMORY_BUDGET", help_heading = "Model")]
    pub(crate) memory_budget: Option<u64>,
    /// Device memory, such as 4G, for states that are asked about again: later questions on the same state then cost only
    /// their own tokens, and the answers are the same [default: none].
    ///
    /// The least recently used state makes room for a new one. With CUDA, for texts; elsewhere nothing is kept. Not worth it
    /// where every row has a state of its own.
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, requires = "input", help_heading = "Model")]
    pub(crate) state_cache: Option<u64>,

    /// What confidence means.
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    pub(crate) confidence: ConfidenceAs,
    /// Digits after the point of the numbers in JSON, or `all`.
    #[arg(long, value_name = "N", value_parser = values::decimals, default_value = "6", help_heading = "Output")]
    pub(crate) decimals: values::Decimals,
    /// Say where the answers came from: backend, device, weight format, SHA-256 of the weights.
    #[arg(long, help_heading = "Output")]
    pub(crate) receipt: bool,
    /// Output format [default: table; a batch is jsonl].
    #[arg(long, value_enum, conflicts_with = "input", help_heading = "Output")]
    pub(crate) format: Option<DecideFormat>,
    /// The same as --format json.
    #[arg(long, conflicts_with_all = ["format", "input"], help_heading = "Output")]
    pub(crate) json: bool,

    /// The batch form.
    #[command(flatten)]
    pub(crate) batch: DecideBatchArgs,
}

impl DecideArgs {
    /// How JSON is written.
    pub(crate) fn output(&self) -> DecideOutput {
        DecideOutput { decimals: self.decimals.0, receipt: self.receipt }
    }

    /// Puts the flags about the answer into a request.
    pub(crate) fn set_options(&self, request: &mut DecideRequest) {
        request.truncation = match self.truncate {
            TruncateState::Refuse => StateTruncation::Refuse,
            TruncateState::End => StateTruncation::End,
        };
        request.special_tokens = match self.special_tokens {
            SpecialTokensAs::Data => SpecialTokens::Data,
            SpecialTokensAs::Live => SpecialTokens::Live,
        };
        request.confidence = self.confidence.into();
    }
}

/// The batch form of `decide`.
#[derive(Debug, Args)]
pub(crate) struct DecideBatchArgs {
    /// Answer every row of a JSONL file; `-` is standard input.
    #[arg(long, short, value_name = "FILE", help_heading = "Batch")]
    pub(crate) input: Option<PathBuf>,
    /// Where the answers go, one a row in input order; `-` is standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-", requires = "input", conflicts_with_all = ONE_STATE, help_heading = "Batch")]
    pub(crate) output: PathBuf,
    /// Field with the row's id, copied to the output [default: id, where present].
    #[arg(long, value_name = "NAME", requires = "input", conflicts_with_all = ONE_STATE, help_heading = "Batch")]
    pub(crate) id_field: Option<String>,
    /// Copy this field to the output; may be given several times.
    #[arg(long, value_name = "NAME", requires = "input", conflicts_with_all = ONE_STATE, help_heading = "Batch")]
    pub(crate) keep: Vec<String>,
    /// Continue an interrupted output file: keep its rows, drop a half-written last one, append the rest.
    ///
    /// Refused when the flags, the model or the input are not those of the interrupted run.
    #[arg(long, requires = "input", conflicts_with_all = ONE_STATE, conflicts_with = "overwrite", help_heading = "Batch")]
    pub(crate) resume: bool,
    /// With --resume: continue although the flags, the model or the input have changed, or are not known.
    #[arg(long, requires = "resume", help_heading = "Batch")]
    pub(crate) force: bool,
    /// Replace an existing output file.
    #[arg(long, requires = "input", conflicts_with_all = ONE_STATE, help_heading = "Batch")]
    pub(crate) overwrite: bool,
    /// No progress and no summary on standard error.
    #[arg(long, short, requires = "input", conflicts_with_all = ONE_STATE, help_heading = "Batch")]
    pub(crate) quiet: bool,
}

/// The questions of the flags, in the order in which they stand on the command line: the model reads them in that
/// order. Derived definitions know only the order of values of one flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct AskedArgs(pub(crate) Vec<Asked>);

/// A flag that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// `--questions`.
    Questions(String),
    /// `--ask`.
    Ask(String),
    /// `--choose`.
    Choose(String),
    /// `--rate`.
    Rate(String),
}

/// Makes what a flag asks of its value.
type Make = fn(String) -> Asked;

const FLAGS: [(&str, char, &str, &str, Make); 4] = [
    ("ask", 'a', "QUESTION", "Ask for yes or no: `Is it urgent?`", Asked::Ask),
    (
        "choose",
        'c',
        "QUESTION",
        "Ask for one of some options: `Which team?=billing|technical|sales`",
        Asked::Choose,
    ),
    ("rate", 'r', "QUESTION", "Ask for a level, lowest first: `Urgency=low|medium|high`", Asked::Rate),
    (
        "questions",
        'Q',
        "QUESTIONS",
        "Ask the questions of a JSON map, or of a FILE that holds one",
        Asked::Questions,
    ),
];

impl FromArgMatches for AskedArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all = Vec::new();
        for (name, _, _, _, make) in FLAGS {
            let places = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten();
            all.extend(places.zip(values).map(|(place, value)| (place, make(value.clone()))));
        }
        all.sort_by_key(|(place, _)| *place);
        Ok(Self(all.into_iter().map(|(_, asked)| asked).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for AskedArgs {
    fn augment_args(command: Command) -> Command {
        FLAGS.into_iter().fold(command, |command, (name, short, value, help, _)| {
            let arg = Arg::new(name).long(name).short(short).value_name(value).action(ArgAction::Append);
            command.arg(arg.help(format!("{help}. May be given several times")).help_heading("Question"))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// `--state-as`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum StateAs {
    /// JSON if it is a JSON object or list from its first to its last character, else text.
    #[default]
    Auto,
    /// Text, whatever it looks like.
    Text,
    /// JSON; anything else is refused.
    Json,
}

/// `--truncate` of `decide`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TruncateState {
    /// Refuse it and say by how much.
    #[default]
    Refuse,
    /// Drop the end of the state, never a question or a picture, and say how much.
    End,
}

impl TruncateState {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::End => "end",
        }
    }
}

/// `--special-tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SpecialTokensAs {
    /// Text like any other.
    #[default]
    Data,
    /// The model's control tokens of that name, as in the reference.
    Live,
}

impl SpecialTokensAs {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Live => "live",
        }
    }
}

/// `--confidence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ConfidenceAs {
    /// 0 for a uniform answer, 1 for a certain one; for levels, by their distance.
    #[default]
    Typesafe,
    /// The largest probability, as in the reference.
    Max,
    /// 1 less the normalised entropy.
    Entropy,
}

impl From<ConfidenceAs> for Confidence {
    fn from(choice: ConfidenceAs) -> Self {
        match choice {
            ConfidenceAs::Typesafe => Self::TypeSafe,
            ConfidenceAs::Max => Self::Max,
            ConfidenceAs::Entropy => Self::Entropy,
        }
    }
}

/// `--format` of `decide`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecideFormat {
    /// Answers with bars, for people.
    Table,
    /// One indented JSON object.
    Json,
    /// One JSON object in a line.
    Jsonl,
}
