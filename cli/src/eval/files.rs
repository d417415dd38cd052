//! Files of examples in, files of results out.

use std::path::Path;

use dikast_core::Error;
use dikast_eval::{Example, Format, ReadOptions};

use super::Paths;
use super::work::Outcome;
use crate::args::{DataFormat, EvalArgs};
use crate::exit::{Failure, Result};

const RESULTS: &str = "results.json";
const PREDICTIONS: &str = "predictions.jsonl";
const REPORT: &str = "report.html";

/// Whether `eval` may have written a file of this name.
pub(super) fn is_output(name: &str) -> bool {
    [RESULTS, PREDICTIONS, REPORT].contains(&name)
}

/// The examples of all files that the flags name.
pub(super) fn read(args: &EvalArgs) -> Result<Vec<Example>> {
    let options = ReadOptions {
        format: match args.format {
            DataFormat::Auto => Format::Auto,
            DataFormat::Jsonl => Format::Jsonl,
            DataFormat::Csv => Format::Csv,
            DataFormat::Tsv => Format::Tsv,
            DataFormat::AgNews => Format::AgNews,
            DataFormat::Sib200 => Format::Sib200,
        },
        labels: args.labels.clone(),
        prompt: args.prompt.clone(),
    };
    all(&args.data, &options, args.limit.map(Into::into))
}

/// The first examples of files.
pub(super) fn all(paths: &Paths, options: &ReadOptions, limit: Option<usize>) -> Result<Vec<Example>> {
    let mut examples = Vec::new();
    for path in paths {
        let mut own = dikast_eval::read(path, options).map_err(|e| match e {
            // What the caller must change, not what the program cannot reach.
            Error::Io { path, message } => Failure::usage(format!("{path}: {message}")),
            other => Failure::Engine(other),
        })?;
        own.truncate(limit.unwrap_or(usize::MAX));
        examples.append(&mut own);
    }
    Ok(examples)
}

/// Writes the three files.
pub(super) fn write(dir: &Path, outcome: &Outcome) -> Result<()> {
    let results = outcome.evaluation.to_json()?;
    for (name, text) in
        [(RESULTS, &results), (PREDICTIONS, &outcome.predictions), (REPORT, &outcome.evaluation.to_html())]
    {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(Failure::io(format!("writing {}", path.display())))?;
    }
    Ok(())
}
