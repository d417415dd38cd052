//! `dikast quantize`: a model's large projections in 8 bits.

use std::io::Write as _;
use std::time::Instant;

use dikast_quantize::{Options, Scheme, convert, is_output};
use indicatif::{HumanBytes, HumanCount};

use crate::args::{QuantizeArgs, SchemeName};
use crate::exit::{Failure, Result};
use crate::folder::Folder;
use crate::synth::{bar, write_failure};
use crate::terminal::visible;

/// Quantizes a model into a folder of its own.
pub(crate) fn run(args: &QuantizeArgs) -> Result<()> {
    let scheme = match args.scheme {
        SchemeName::Int8Convrot => Scheme::Int8ConvRot { group: args.group_size },
    };
    if !args.source.is_dir() {
        return Err(Failure::usage(format!("{}: no such folder", args.source.display())));
    }
    let started = Instant::now();
    let folder = Folder::prepare(&args.out, is_output, None)?;
    let bar = bar();
    let report = convert(&args.source, folder.path(), Options::new(scheme), &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let report = report.map_err(write_failure)?;
    folder.finish()?;
    writeln!(
        std::io::stdout(),
        "{}: {} matrices of {} parameters in {}; {} bytes ({}), {:.1} % of the source, in {:.1} s; read again, all sums \
         match",
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
