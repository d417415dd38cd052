//! `dikast quantize`: a model's large projections in 8 bits.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use dikast_core::numerics::hadamard::Group;
use dikast_quantize::{Options, Pattern, Scheme, Sets, Steps, convert, finished_files, is_output};
use indicatif::{HumanBytes, HumanCount};

use crate::args::{QuantizeArgs, SchemeName};
use crate::eval;
use crate::exit::{Failure, Result};
use crate::folder::Folder;
use crate::synth::{bar, write_failure};
use crate::terminal::{counted, visible, warn};

/// Quantizes a model into a folder of its own.
pub(crate) fn run(args: &QuantizeArgs) -> Result<()> {
    let scheme = scheme(args)?;
    if !args.source.is_dir() {
        return Err(Failure::usage(format!("{}: no such folder", args.source.display())));
    }
    let started = Instant::now();
    let keep =
        args.keep.iter().map(Pattern::new).collect::<dikast_core::Result<_>>().map_err(write_failure)?;
    let options = Options { keep, requantize: args.requantize, ..Options::new(scheme) };
    if !args.calibrate.is_empty() {
        return calibrated(args, &options);
    }
    let folder = Folder::resume(&args.out, is_output)?;
    let bar = bar();
    let report = convert(&args.source, folder.path(), options, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            let done = finished_files(folder.path());
            if done > 0 {
                folder.leave();
                warn(&format!(
                    "{} complete; the same command goes on from there",
                    counted(done as u64, "weight file")
                ));
            }
            return Err(write_failure(error));
        }
    };
    folder.finish()?;
    let resumed = match report.resumed {
        0 => String::new(),
        n => format!("; {} from an earlier run", counted(n as u64, "weight file")),
    };
    writeln!(
        std::io::stdout(),
        "{}: {} matrices of {} parameters in {}; {} bytes ({}), {:.1} % of the source, in {:.1} s{resumed}; read again, \
         all sums match",
        visible(&args.out.display().to_string()),
        HumanCount(report.quantized as u64),
        HumanCount(report.parameters),
        scheme.name(),
        HumanCount(report.bytes),
        HumanBytes(report.bytes),
        100.0 * report.bytes as f64 / report.source_bytes.max(1) as f64,
        started.elapsed().as_secs_f64(),
    )
    .map_err(Failure::Stdout)
}

/// Quantizes with codes found from examples.
fn calibrated(args: &QuantizeArgs, options: &Options) -> Result<()> {
    let steps = Steps::parse(&args.recipe).map_err(write_failure)?;
    let read = |paths: &[PathBuf]| eval::examples(paths);
    let (calibrate, select, report) = (read(&args.calibrate)?, read(&args.select)?, read(&args.report)?);
    let sets = Sets { calibrate: &calibrate, select: &select, report: &report };
    let started = Instant::now();
    let folder = Folder::prepare(&args.out, is_output, None)?;
    let done = dikast_quantize::calibrate(&args.source, folder.path(), options, steps, sets, &mut |line| {
        // A closed standard error is no reason to fail.
        let _ = writeln!(std::io::stderr(), "{line}");
    })
    .map_err(write_failure)?;
    folder.finish()?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{}: {} matrices in {}, calibrated ({steps}) on {} of {} tokens, chosen by {} others, in {:.1} s; read again, \
         all sums match",
        visible(&args.out.display().to_string()),
        HumanCount(done.report.quantized as u64),
        options.scheme.name(),
        counted(done.calibrate as u64, "example"),
        HumanCount(done.tokens as u64),
        done.select,
        started.elapsed().as_secs_f64(),
    )
    .map_err(Failure::Stdout)?;
    match done.measured {
        Some(measured) => write!(out, "\n{}", measured.table()).map_err(Failure::Stdout),
        None => Ok(()),
    }
}

/// The scheme that the flags choose.
fn scheme(args: &QuantizeArgs) -> Result<Scheme> {
    let group = args.group_size;
    match args.scheme {
        SchemeName::Int8Convrot => Ok(Scheme::Int8ConvRot { group: group.unwrap_or(Group::DEFAULT) }),
        _ if group.is_some() => Err(Failure::usage("--group-size: only int8-convrot has groups")),
        SchemeName::Int8 => Ok(Scheme::Int8),
        SchemeName::Fp8W8a8 => Ok(Scheme::Fp8W8A8),
    }
}
