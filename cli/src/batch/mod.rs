//! `dikast classify` and `dikast decide` with `--input … --output …`: rows in, one record a row out, in input order and
//! bounded memory.

mod files;
mod identity;
mod input;
mod output;
mod progress;
mod reader;
mod resume;
mod runner;
mod settings;
mod sidecar;
mod totals;
mod verbatim;
mod writer;

use std::io::{BufRead, IsTerminal as _};

use crate::args::{ClassifyArgs, DecideArgs};
use crate::classify::engine_options;
use crate::decide::Questions;
use crate::exit::{Failure, Result};
use crate::request::Template;
use crate::{classifier, decider, model};

use files::{Files, is_stream};
use input::Input;
use output::Output;
use progress::Progress;
use reader::bodies::BodySource;
use reader::texts::TextSource;
use reader::{Reader, Source};
use runner::{Answerer, Classifying, Deciding};
use settings::Settings;
use writer::{Encoder, Form};

// In both: everything that can be wrong with the arguments comes before the model is loaded, and the output is touched
// last.

/// Classifies every row of a file.
pub(crate) fn classify(args: &ClassifyArgs) -> Result<()> {
    let files = Files::from(&args.batch);
    let template = Template::from_args(args)?;
    let encoder = Encoder::of_labels(args, &files)?;
    let input = input::open(&files.input)?;
    output::check(&files, input.identity)?;
    check_fields(args)?;
    let Input { bytes, length, identity } = input;
    let reader = Reader::new(bytes, TextSource::from_args(args, &files, template.clone()))?;
    if !files.quiet {
        template.warn_of_lone_label();
    }
    let model = model::open_for_labels(args.model.model.as_deref())?;
    let mut classifier = classifier::load(&model, args.model.backend, engine_options(args))?;
    let settings = Settings::of_classify(args, &template, &files, &encoder, &model);
    let run = Run { files: &files, length, identity, settings };
    run.answer(reader, &encoder, &mut Classifying(classifier.as_mut()))
}

/// Answers the request in every row of a file.
pub(crate) fn decide(args: &DecideArgs) -> Result<()> {
    let files = Files::from(&args.batch);
    let questions = Questions::collect(&args.asked)?.into_tree();
    let asked = questions.to_string();
    let encoder = Encoder::of_decisions(args, &files)?;
    let input = input::open(&files.input)?;
    output::check(&files, input.identity)?;
    let Input { bytes, length, identity } = input;
    let reader = Reader::new(bytes, BodySource::from_args(args, questions))?;
    let model = model::open_for_decisions(args.model.as_deref())?;
    let mut decider = decider::load(&model, args)?;
    let settings = Settings::of_decide(args, &asked, &encoder, &model);
    let run = Run { files: &files, length, identity, settings };
    run.answer(reader, &encoder, &mut Deciding(decider.as_mut()))
}

/// A run whose arguments are right.
struct Run<'a> {
    files: &'a Files,
    /// Bytes of the input, where known.
    length: Option<u64>,
    /// The file of the input.
    identity: Option<identity::Identity>,
    settings: Settings,
}

impl Run<'_> {
    /// Opens the output and answers the rows that it lacks.
    fn answer<R: BufRead, S: Source, F: Form, A>(
        self,
        mut reader: Reader<R, S>,
        encoder: &Encoder<F>,
        answerer: &mut A,
    ) -> Result<()>
    where
        A: Answerer<Question = S::Question, Answer = F::Answer>,
    {
        let files = self.files;
        let (mut output, done) = Output::open(files, self.identity, self.settings, encoder, &mut reader)?;

        // A bar between answers on the same screen would only tear them apart.
        let on_screen = is_stream(&files.output) && std::io::stdout().is_terminal();
        let live = std::io::stderr().is_terminal() && !on_screen;
        let mut progress = Progress::start(self.length, done, !files.quiet, live);
        progress.skipped(reader.bytes_read());
        let totals = runner::run(&mut reader, answerer, encoder, &mut output, done, &mut progress);
        progress.finish(A::CUT);
        let totals = totals?;
        output.complete()?;
        if totals.failed > 0 {
            return Err(Failure::RowsFailed { failed: totals.failed, rows: totals.rows });
        }
        Ok(())
    }
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
