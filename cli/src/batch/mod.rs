//! `dikast classify --input … --output …`: rows in, one record a row out, in input order and bounded memory.

mod input;
mod output;
mod progress;
mod reader;
mod resume;
mod runner;
mod settings;
mod sidecar;
mod totals;
mod writer;

use std::io::IsTerminal as _;

use crate::args::ClassifyArgs;
use crate::classify::engine_options;
use crate::exit::{Failure, Result};
use crate::request::Template;
use crate::{classifier, model};

use output::Output;
use progress::Progress;
use reader::{Reader, Source};
use settings::Settings;
use writer::Encoder;

/// Classifies every row of a file.
pub(crate) fn run(args: &ClassifyArgs) -> Result<()> {
    // Everything that can be wrong with the arguments comes before the model is loaded, and the output is
    // touched last.
    let template = Template::from_args(args)?;
    let encoder = Encoder::from_args(args)?;
    let input = input::open(args)?;
    output::check(args)?;
    check_fields(args)?;
    let source = Source::from_args(args, template.clone());
    let mut reader = Reader::new(input.bytes, source)?;
    let files = model::open(args.model.model.as_deref())?;
    let mut classifier = classifier::load(&files, args.model.backend, engine_options(args))?;
    let settings = Settings::of(args, &template, &encoder, &files);
    let (mut output, done) = Output::open(args, settings, &encoder, &mut reader)?;

    // A bar between answers on the same screen would only tear them apart.
    let on_screen = input::is_stream(&args.batch.output) && std::io::stdout().is_terminal();
    let live = std::io::stderr().is_terminal() && !on_screen;
    let mut progress = Progress::start(input.length, done, !args.batch.quiet, live);
    progress.skipped(reader.bytes_read());
    let totals = runner::run(&mut reader, classifier.as_mut(), &encoder, &mut output, done, &mut progress);
    progress.finish();
    let totals = totals?;
    output.complete()?;
    if totals.failed > 0 {
        return Err(Failure::RowsFailed { failed: totals.failed, rows: totals.rows });
    }
    Ok(())
}

/// Refuses flags about the labels that leave no labels, or two.
fn check_fields(args: &ClassifyArgs) -> Result<()> {
    let batch = &args.batch;
    if !batch.ignore_field.iter().any(|name| name == "labels") {
        return Ok(());
    }
    if batch.labels_field.as_deref() == Some("labels") {
        return Err(Failure::usage("--labels-field labels and --ignore-field labels contradict each other"));
    }
    if args.labels.is_empty() && batch.labels_field.is_none() {
        return Err(Failure::usage(
            "--ignore-field labels leaves no labels: give --labels or --labels-field",
        ));
    }
    Ok(())
}
