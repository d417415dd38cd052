//! `dikast classify --input … --output …`: rows in, one record a row out, in input order and bounded memory.

mod input;
mod output;
mod progress;
mod reader;
mod resume;
mod runner;
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
use writer::Encoder;

/// Classifies every row of a file.
pub(crate) fn run(args: &ClassifyArgs) -> Result<()> {
    // Everything that can be wrong with the arguments comes before the model is loaded, and the output is
    // touched last.
    let template = Template::from_args(args)?;
    let encoder = Encoder::from_args(args)?;
    let input = input::open(args)?;
    output::check(args)?;
    let source = Source::from_args(args, template);
    let mut reader = Reader::new(input.bytes, source)?;
    let files = model::open(args.model.model.as_deref())?;
    let mut classifier = classifier::load(&files, args.model.backend, engine_options(args))?;
    let (mut output, done) = Output::open(args, &encoder, &mut reader)?;

    // A bar between answers on the same screen would only tear them apart.
    let on_screen = input::is_stream(&args.batch.output) && std::io::stdout().is_terminal();
    let live = std::io::stderr().is_terminal() && !on_screen;
    let mut progress = Progress::start(input.length, done, !args.batch.quiet, live);
    progress.skipped(reader.bytes_read());
    let totals = runner::run(&mut reader, classifier.as_mut(), &encoder, &mut output, done, &mut progress);
    progress.finish();
    let totals = totals?;
    if totals.failed > 0 {
        return Err(Failure::RowsFailed { failed: totals.failed, rows: totals.rows });
    }
    Ok(())
}
