//! `dikast eval` and `dikast compare`: a model beside the one that it was made from.

mod files;
mod noise;
mod work;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use dikast_core::checkpoint::ModelFiles;
use dikast_core::models::clef::Clef;
use dikast_core::models::gliclass::GliClass;
use dikast_eval::{Evaluation, Example, Limits, Request};

use crate::args::{CompareArgs, EvalArgs};
use crate::classifier::BackendChoice;
use crate::exit::{Failure, Result};
use crate::folder::Folder;
use crate::model;
use crate::parity::requests;
use work::{Job, Outcome};

/// Runs a model on files of examples and prints, or writes, what was found.
pub(crate) fn run(args: &EvalArgs) -> Result<()> {
    let examples = files::read(args)?;
    let folder = match &args.out {
        Some(out) => Some(Folder::prepare(out, files::is_output, Some(args.overwrite))?),
        None => None,
    };
    let job = Job {
        examples: &examples,
        limits: Limits {
            max_tokens: args.max_tokens.map(Into::into),
            drift_examples: args.drift_examples,
            ..Limits::default()
        },
        backend: args.backend,
        noise_examples: args.noise_examples,
        noise_backends: args.noise_backends.as_deref(),
    };
    let outcome = evaluated(&args.model, args.reference.as_deref(), &job)?;
    if let Some(folder) = folder {
        files::write(folder.path(), &outcome)?;
        folder.finish()?;
    }
    say(&outcome.evaluation, args.json)
}

/// Prints how two models differ.
pub(crate) fn compare(args: &CompareArgs) -> Result<()> {
    let examples = if args.data.is_empty() {
        built_in(&args.model)?
    } else {
        files::all(&args.data, &dikast_eval::ReadOptions::default(), args.limit.map(Into::into))?
    };
    let job = Job {
        examples: &examples,
        limits: Limits::default(),
        backend: args.backend,
        noise_examples: 0,
        noise_backends: None,
    };
    say(&evaluated(&args.model, Some(&args.reference), &job)?.evaluation, false)
}

/// The examples of files, for another command.
pub(crate) fn examples(paths: &[PathBuf]) -> Result<Vec<Example>> {
    files::all(paths, &dikast_eval::ReadOptions::default(), None)
}

fn say(evaluation: &Evaluation, json: bool) -> Result<()> {
    let text = if json { evaluation.to_json()? } else { shown(&evaluation.to_text()) };
    write!(std::io::stdout(), "{text}").map_err(Failure::Stdout)
}

/// A table that a terminal may show: names of examples are somebody else's.
fn shown(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", crate::terminal::visible(line))).collect()
}

/// A folder, or a model that is compiled in.
fn open(place: &Path) -> Result<ModelFiles> {
    match place.to_str() {
        // A folder of that name comes first.
        Some(dikast_models::GLICLASS_MINI) if !place.exists() => Ok(dikast_models::gliclass_mini()),
        Some(dikast_models::CLEF_MINI) if !place.exists() => Ok(dikast_models::clef_mini()),
        _ if !place.is_dir() => Err(Failure::usage(format!(
            "{}: no such folder, and the names known are {}, {}",
            place.display(),
            dikast_models::GLICLASS_MINI,
            dikast_models::CLEF_MINI
        ))),
        _ => model::open(Some(place)),
    }
}

fn evaluated(model: &Path, reference: Option<&Path>, job: &Job<'_>) -> Result<Outcome> {
    let files = open(model)?;
    let other = reference.map(open).transpose()?;
    if let Some(other) = other.as_ref().filter(|o| model::is_clef(o) != model::is_clef(&files)) {
        return Err(Failure::usage(format!(
            "{} and {} are of different families: nothing of them can be compared",
            files.name(),
            other.name()
        )));
    }
    let load = |files: &ModelFiles| Clef::load(files).map_err(Failure::Model);
    if model::is_clef(&files) {
        return work::evaluate(load(&files)?, other.as_ref().map(load).transpose()?, job);
    }
    let load = |files: &ModelFiles| GliClass::load(files).map_err(Failure::Model);
    work::evaluate(load(&files)?, other.as_ref().map(load).transpose()?, job)
}

/// The requests that `parity` asks.
fn built_in(place: &Path) -> Result<Vec<Example>> {
    let example = |(i, request)| Example::new(format!("built-in-{i}"), "built-in", request);
    if model::is_clef(&open(place)?) {
        let requests = requests::decide()?.into_iter().map(Request::Decide);
        return Ok(requests.enumerate().map(example).collect());
    }
    Ok(requests::classify().into_iter().map(Request::Classify).enumerate().map(example).collect())
}

/// The backends whose names were given, or `None` for all that are worth it.
type Backends<'a> = Option<&'a [BackendChoice]>;

/// Files by their paths.
type Paths = [PathBuf];
