//! `dikast classify` for one text.

mod answer;
pub(crate) mod examples;
pub(crate) mod labels;
mod table;
mod text;
mod tree;

use std::io::Write as _;
use std::time::Instant;

use dikast_core::Error;
use dikast_core::engine::EngineOptions;

pub(crate) use answer::{Answer, AnswerLabel, ranking};

use crate::args::{ClassifyArgs, Format, Shape};
use crate::exit::{Failure, Result};
use crate::request::{Template, fit};
use crate::terminal::{counted, listed};
use crate::{classifier, model, terminal};

/// The engine limits that the flags ask for.
pub(crate) fn engine_options(args: &ClassifyArgs) -> EngineOptions {
    let defaults = EngineOptions::default();
    EngineOptions { max_tokens: args.max_tokens.map_or(defaults.max_tokens, |n| n.get()), ..defaults }
}

/// Classifies one text and prints the answer.
pub(crate) fn run(args: &ClassifyArgs) -> Result<()> {
    let format = args.format.unwrap_or(Format::Table);
    if format == Format::Csv {
        return Err(Failure::usage("--format csv is for batches; it needs --input"));
    }
    if args.hierarchy == Shape::Tree && format == Format::Table && (args.top_k.is_some() || args.logits) {
        return Err(Failure::usage(
            "the table of --hierarchy tree shows every score and no logits; --top-k and --logits need --hierarchy flat",
        ));
    }
    // Everything that can be wrong with the request comes before the model is loaded.
    let template = Template::from_args(args)?;
    let question = template.question(text::read(args)?)?;
    template.warn_of_lone_label();
    if !args.allow_empty && question.request.text.trim().is_empty() {
        terminal::warn(
            "the text is empty, and its answer means little; --allow-empty accepts it without a warning",
        );
    }
    let files = model::open_for_labels(args.model.model.as_deref())?;
    let mut classifier = classifier::load(&files, args.model.backend, engine_options(args))?;

    let started = Instant::now();
    let request = fit(classifier.as_ref(), question)?;
    let results = classifier.classify(std::slice::from_ref(&request));
    let elapsed = started.elapsed();
    let missing = || Error::Internal("the engine gave no answer".into());
    let classification = results.into_iter().next().ok_or_else(missing)??;

    let cut = classification.cut_labels();
    if !cut.is_empty() {
        let (were, scores) =
            if cut.len() == 1 { ("was", "its score means") } else { ("were", "their scores mean") };
        let labels = counted(cut.len() as u64, "label");
        terminal::warn(&format!(
            "{labels} {were} cut by --truncate right, {scores} nothing: {}",
            listed(&cut, 10)
        ));
    }
    let tree = (args.hierarchy == Shape::Tree).then(|| classification.tree());
    let top_k = args.top_k.map(|k| k.get());
    let answer = Answer::new(&classification, top_k, tree);
    let mut out = Vec::new();
    match format {
        Format::Json => serde_json::to_writer_pretty(&mut out, &answer).map_err(|e| json_failure(&e))?,
        Format::Jsonl => serde_json::to_writer(&mut out, &answer).map_err(|e| json_failure(&e))?,
        Format::Table | Format::Csv => {
            let style = table::Style { width: terminal::stdout_width(), logits: args.logits };
            match &answer.tree {
                Some(tree) => tree::render(tree, &style, &mut out),
                None => table::render(&answer, &style, &mut out),
            }
            .map_err(Failure::io("formatting the table"))?;
            table::footer(&answer, elapsed, &mut out).map_err(Failure::io("formatting the table"))?;
        }
    }
    let written = if format == Format::Table {
        // Strips colours when standard output is no terminal or NO_COLOR is set.
        let mut stdout = anstream::stdout();
        stdout.write_all(&out).and_then(|()| stdout.flush())
    } else {
        out.push(b'\n');
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&terminal::escape_json(out)).and_then(|()| stdout.flush())
    };
    written.map_err(Failure::Stdout)
}

fn json_failure(error: &serde_json::Error) -> Failure {
    Failure::Engine(Error::Internal(error.to_string()))
}
