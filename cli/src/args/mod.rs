//! The command line: the one definition behind parsing, `--help`, completions and the man page.

mod bench;
mod classify;
mod decide;
mod environment;
mod eval;
mod parity;
mod quantize;
mod serve;
mod settings;
mod synth;
mod values;
mod vision;

use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub(crate) use bench::BenchArgs;
pub(crate) use classify::{BatchArgs, ClassifyArgs, Format, InputFormat, Shape, Truncate};
pub(crate) use decide::{Asked, AskedArgs, DecideArgs, DecideBatchArgs, DecideFormat, StateAs};
pub(crate) use eval::{CompareArgs, DataFormat, EvalArgs};
pub(crate) use parity::ParityArgs;
pub(crate) use quantize::{QuantizeArgs, SchemeName};
pub(crate) use serve::{Log, ServeArgs};
pub(crate) use synth::{Quant, SynthArgs};

use crate::classifier::BackendChoice;
use crate::exit;

/// Zero-shot classification and typed decisions in one forward pass, on this machine.
#[derive(Debug, Parser)]
#[command(name = "dikast", version, arg_required_else_help = true, after_help = exit::CODES)]
pub(crate) struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The arguments of this process; it ends here when they are wrong or ask for help.
    pub(crate) fn from_process() -> Self {
        let mut command = environment::without_empty(Self::command());
        let mut matches = command.clone().get_matches();
        let mut settings = settings::Settings::default();
        if let Some(path) = settings::file(&matches) {
            settings = settings::Settings::read(&path, &command).unwrap_or_else(|error| {
                let message = format!("--config {}: {error}", path.display());
                command.error(clap::error::ErrorKind::InvalidValue, message).exit()
            });
            command = settings.applied(command);
            matches = command.clone().get_matches();
        }
        let mut cli = Self::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
        if let Command::Serve(args) = &mut cli.command {
            args.settings = settings.printed(&matches, &command);
        }
        cli
    }
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Judge a text, or a file of texts, by labels of your choice.
    Classify(Box<ClassifyArgs>),
    /// Answer typed questions about a text, JSON, pictures or videos, or a file of requests.
    Decide(Box<DecideArgs>),
    /// Show what a model is made of and what it needs.
    Inspect(InspectArgs),
    /// Measure how fast a model runs on this machine, and how near that is to what the machine can do.
    Bench(BenchArgs),
    /// Make a model smaller: its large projections in 8 bits, in a folder of its own.
    Quantize(QuantizeArgs),
    /// Answer over HTTP, in the formats that existing clients send.
    Serve(Box<ServeArgs>),
    /// Hold a device against the definition of every step.
    Parity(ParityArgs),
    /// Run a model on examples beside the one that it was made from: agreement, drift, accuracy, calibration.
    Eval(Box<EvalArgs>),
    /// Two models on this machine: size, memory, latency, drift, agreement.
    Compare(CompareArgs),
    /// Show what this machine has, which backend will be used, and what to change.
    Doctor,
    /// Write a model of random weights at real shapes, for benchmarks.
    Synth(SynthArgs),
    /// Print the completion script for a shell.
    #[command(
        after_help = "Example:\n  dikast completions bash > ~/.local/share/bash-completion/completions/dikast"
    )]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page a command.
    Man {
        /// Write `dikast.1`, `dikast-classify.1`, … into this folder.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Where the model comes from.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    /// Folder with config.json, tokenizer.json and model.safetensors; without it, the built-in gliclass-mini.
    #[arg(long, value_name = "DIR", env = "DIKAST_MODEL", help_heading = "Model")]
    pub(crate) model: Option<PathBuf>,
    /// What runs the model.
    #[arg(long, value_enum, default_value_t, env = "DIKAST_BACKEND", help_heading = "Model")]
    pub(crate) backend: BackendChoice,
}

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dikast inspect
  dikast inspect ./gliclass-ultra --tokens 1024
  dikast inspect --graph
  dikast inspect ./gliclass-ultra --format json | jq .bytes")]
pub(crate) struct InspectArgs {
    /// Model folder; without it, the built-in gliclass-mini.
    #[arg(value_name = "DIR", env = "DIKAST_MODEL")]
    pub(crate) model: Option<PathBuf>,
    /// Tokens of one forward pass to count activation memory for.
    #[arg(long, value_name = "N", value_parser = values::tokens, default_value = "1024")]
    pub(crate) tokens: std::num::NonZeroUsize,
    /// List every step of the forward pass.
    #[arg(long)]
    pub(crate) graph: bool,
    /// Print the SHA-256 of the weights; reads all of them.
    #[arg(long)]
    pub(crate) digest: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: InspectFormat,
}

/// Output formats of `inspect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum InspectFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    fn refused(args: &[&str]) -> bool {
        Cli::try_parse_from(["dikast"].iter().chain(args)).is_err()
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(refused(&["classify", "--text", "a", "--file", "b", "--labels", "x,y"]));
        assert!(refused(&["classify", "--text", "a", "--input", "b", "--labels", "x,y"]));
        assert!(refused(&["classify", "--text", "a", "--labels", "x", "--threshold", "0.5"]));
        assert!(refused(&["classify", "--text", "a", "--labels", "x", "--chunk-chars", "5"]));
        assert!(refused(&["classify", "--text", "a", "--labels", "x", "--resume"]));
        assert!(refused(&["classify", "--input", "a", "--resume", "--overwrite"]));
        assert!(refused(&["classify"]));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for threshold in ["1.5", "-0.1", "NaN", "x", "inf"] {
            assert!(refused(&[
                "classify",
                "--labels",
                "x",
                "--multi-label",
                &format!("--threshold={threshold}")
            ]));
        }
        assert!(refused(&["classify", "--labels", "x", "--top-k", "0"]));
        for tokens in ["0", "131073", "99999999999999999999"] {
            assert!(refused(&["classify", "--labels", "x", "--input", "-", "--max-tokens", tokens]));
            assert!(refused(&["inspect", "--tokens", tokens]));
        }
        assert!(!refused(&["inspect", "--tokens", "131072"]));
        assert!(refused(&["classify", "--labels", "x", "--backend", "tpu"]));
        for delimiter in ["ab", "0", "9"] {
            assert!(refused(&["classify", "--labels", "x", "--input", "-", "--delimiter", delimiter]));
        }
    }

    #[test]
    fn decide_refuses_contradictions() {
        for args in [
            &["--state", "s", "--input", "b"][..],
            &["--image", "p.png", "--input", "b"],
            &["--state", "s", "--resume"],
            &["--state", "s", "--output", "o"],
            &["--state", "s", "--fps", "2"],
            &["--video", "v", "--fps", "0"],
            &["--video", "v", "--fps", "NaN"],
            &["--json", "--format", "table"],
            &["--json", "--input", "b"],
            &["--decimals", "18"],
            &["--decimals", "some"],
            &["--confidence", "high"],
            &["--max-tokens", "0"],
        ] {
            assert!(refused(&[&["decide"], args].concat()), "{args:?}");
        }
        assert!(!refused(&["decide", "--input", "b", "--output", "o", "--ask", "q"]));
    }

    #[test]
    fn questions_keep_the_order_of_their_flags() {
        let args = [
            "dikast",
            "decide",
            "-r",
            "1",
            "--ask",
            "2",
            "--questions",
            "3",
            "-r",
            "4",
            "-c",
            "5",
            "-a",
            "6",
        ];
        let Ok(Cli { command: Command::Decide(args) }) = Cli::try_parse_from(args) else { panic!("refused") };
        let asked = args.asked.0.iter().map(|a| match a {
            Asked::Rate(v) => format!("rate {v}"),
            Asked::Ask(v) => format!("ask {v}"),
            Asked::Questions(v) => format!("questions {v}"),
            Asked::Choose(v) => format!("choose {v}"),
        });
        let expected = ["rate 1", "ask 2", "questions 3", "rate 4", "choose 5", "ask 6"];
        assert_eq!(asked.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn groups_are_powers_of_four() {
        let quantize = |size| ["quantize", "a", "b", "--scheme", "int8-convrot", "--group-size", size];
        for size in ["0", "8", "128", "512", "4096", "x", "-4"] {
            assert!(refused(&quantize(size)), "{size}");
        }
        assert!(!refused(&quantize("64")));
        assert!(refused(&["quantize", "a", "b"]));
    }

    #[test]
    fn the_batch_form_needs_no_labels_flag() {
        assert!(!refused(&["classify", "--input", "in.jsonl", "--output", "out.jsonl"]));
        assert!(!refused(&["classify", "--input", "in.csv", "--delimiter", "\\t", "--labels", "a,b"]));
    }
}
