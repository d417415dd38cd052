//! The `dikast` command: argument parsing, one module a subcommand, documented exit codes.

mod args;
mod batch;
mod bench;
mod classifier;
mod classify;
mod complete;
mod decide;
mod decider;
mod doctor;
mod eval;
mod exit;
mod folder;
mod inspect;
mod model;
mod parity;
mod quantize;
mod request;
mod serve;
mod source;
mod synth;
mod terminal;
mod threads;

use std::process::ExitCode;

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::from_process();
    threads::limit();
    let outcome = match cli.command {
        Command::Classify(args) if args.batch.input.is_some() => batch::classify(&args),
        Command::Classify(args) => classify::run(&args),
        Command::Decide(args) if args.batch.input.is_some() => batch::decide(&args),
        Command::Decide(args) => decide::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Quantize(args) => quantize::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Parity(args) => parity::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Compare(args) => eval::compare(&args),
        Command::Doctor => doctor::run(),
        Command::Synth(args) => synth::run(&args),
        Command::Completions { shell } => complete::completions(shell),
        Command::Man { dir } => complete::man(dir.as_deref()),
    };
    exit::report(outcome)
}
