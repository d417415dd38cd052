//! `dikast synth`: a synthetic model folder at a model's real shapes.

use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use dikast_core::checkpoint::ModelFiles;
use dikast_core::{Error, Result as CoreResult};
use dikast_synth::{Format, PRESETS, Recipe, Written};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::{Quant, SynthArgs};
use crate::exit::{Failure, Result};
use crate::folder::Folder;
use crate::terminal::visible;

/// Writes a synthetic model.
pub(crate) fn run(args: &SynthArgs) -> Result<()> {
    let recipe = recipe(args)?;
    let started = Instant::now();
    let folder = Folder::prepare(&args.out, dikast_synth::is_output, Some(args.overwrite))?;
    let bar = bar();
    let written = dikast_synth::write(folder.path(), &recipe, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let written = written.map_err(write_failure)?;
    folder.finish()?;
    say(&args.out, &written, started.elapsed().as_secs_f64())
}

/// A preset by name, else a folder.
fn recipe(args: &SynthArgs) -> Result<Recipe> {
    let format = match args.quant {
        Quant::Bf16 => Format::Bf16,
        Quant::Fp8 => Format::Fp8,
        Quant::Int8Convrot => Format::Int8ConvRot { group: args.group_size },
    };
    let name = args.like.to_string_lossy();
    let recipe = |config, tokenizer, like: &str| Recipe {
        config,
        format,
        seed: args.seed,
        tokenizer,
        like: like.to_owned(),
    };
    if let Some(config) = dikast_synth::preset(&name) {
        return Ok(recipe(config, None, &name));
    }
    if !args.like.is_dir() {
        let known = PRESETS.join(", ");
        return Err(Failure::usage(format!(
            "--like {name}: no such folder, and the names known are {known}"
        )));
    }
    let files = ModelFiles::open(&args.like).map_err(Failure::Model)?;
    let config = config(&files).map_err(Failure::Model)?;
    let like = files.name().to_owned();
    Ok(recipe(config, Some(files), &like))
}

fn config(files: &ModelFiles) -> CoreResult<serde_json::Value> {
    const FILE: &str = "config.json";
    serde_json::from_slice(files.read(FILE)?.bytes()).map_err(|e| Error::checkpoint(FILE, e.to_string()))
}

/// A file that cannot be written is no fault of the model.
pub(crate) fn write_failure(error: Error) -> Failure {
    match error {
        Error::Io { path, message } => {
            Failure::Io { doing: format!("writing {path}"), source: std::io::Error::other(message) }
        }
        Error::InvalidRequest { field, message } => Failure::usage(format!("--{field}: {message}")),
        other => Failure::Model(other),
    }
}

pub(crate) fn bar() -> ProgressBar {
    let template = "{wide_bar} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // Hides itself where standard error is no terminal.
    ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_style(style)
}

fn say(dir: &Path, written: &Written, seconds: f64) -> Result<()> {
    let dir = dir.display().to_string();
    writeln!(
        std::io::stdout(),
        "{}: {} bytes ({}) of synthetic weights, {} parameters, in {seconds:.1} s",
        visible(&dir),
        HumanCount(written.bytes),
        HumanBytes(written.bytes),
        HumanCount(written.parameters),
    )
    .map_err(Failure::Stdout)
}
