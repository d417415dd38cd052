//! `dikast bench`: how fast a model runs here, beside what the machine can do at most.

mod compare;
mod date;
mod job;
mod machine;
mod profile;
mod progress;
mod report;
mod requests;
mod sequences;
mod table;
mod text;
mod timing;

use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use dikast_core::Error;

use crate::args::BenchArgs;
use crate::exit::{Failure, Result};
use crate::{classifier, model};
use report::Report;

/// Most tokens of one forward pass.
const MOST_TOKENS: usize = 1 << 22;

/// Measures a model and prints the figures.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    check_sizes(args)?;
    // What can be wrong with the files comes before minutes of measuring.
    let before = args.compare.as_deref().map(compare::read).transpose()?;
    let requests = args.requests.as_deref().map(requests::read).transpose()?;
    let json = args.json.as_deref().map(open).transpose()?;
    let started = Instant::now();
    let files = model::open(args.model.model.as_deref())?;
    let job = job::Job { args, files: &files, requests, started };
    let report = classifier::on_backend(&files, args.model.backend, job)?;

    let mut out = Vec::new();
    let formatting = || Failure::io("formatting the table");
    table::render(&report, &mut out).map_err(formatting())?;
    if let Some(before) = &before {
        compare::render(&report, before, &mut out).map_err(formatting())?;
    }
    if !report.dikast.optimized {
        writeln!(out, "\nthis is a debug build: its figures mean nothing").map_err(formatting())?;
    }
    if let (Some(file), Some(path)) = (json, &args.json) {
        write(file, path, &report)?;
    }
    let mut stdout = anstream::stdout();
    stdout.write_all(&out).and_then(|()| stdout.flush()).map_err(Failure::Stdout)
}

fn check_sizes(args: &BenchArgs) -> Result<()> {
    for tokens in args.tokens.iter().map(|n| n.get()) {
        for batch in args.batch.iter().map(|n| n.get()) {
            if tokens.checked_mul(batch).is_none_or(|all| all > MOST_TOKENS) {
                let message =
                    format!("{tokens} tokens × {batch}: a forward pass has at most {MOST_TOKENS} tokens");
                return Err(Failure::usage(message));
            }
        }
    }
    Ok(())
}

/// Opens the result file and leaves what is in it alone until there is something new.
fn open(path: &Path) -> Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.open(path).map_err(Failure::io(format!("opening {}", path.display())))
}

fn write(mut file: std::fs::File, path: &Path, report: &Report) -> Result<()> {
    let mut json =
        serde_json::to_vec_pretty(report).map_err(|e| Failure::Engine(Error::Internal(e.to_string())))?;
    json.push(b'\n');
    file.set_len(0)
        .and_then(|()| file.write_all(&json))
        .map_err(Failure::io(format!("writing {}", path.display())))
}
