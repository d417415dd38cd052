//! The bytes to read: a file, or standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::args::{ClassifyArgs, InputFormat};
use crate::exit::{Failure, Result};

/// An opened input.
pub(super) struct Input {
    /// Its bytes.
    pub(super) bytes: Box<dyn BufRead>,
    /// How many there are, where that is known.
    pub(super) length: Option<u64>,
}

/// The name that stands for a standard stream.
pub(super) fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// The path of `--input`.
pub(super) fn path(args: &ClassifyArgs) -> &Path {
    // The command is a batch because --input is there.
    args.batch.input.as_deref().unwrap_or(Path::new("-"))
}

/// Opens `--input`.
pub(super) fn open(args: &ClassifyArgs) -> Result<Input> {
    let path = path(args);
    if is_stream(path) {
        return Ok(Input { bytes: Box::new(BufReader::with_capacity(1 << 16, io::stdin())), length: None });
    }
    let unreadable = |e: io::Error| Failure::usage(format!("{}: {e}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    if facts.is_dir() {
        return Err(Failure::usage(format!("{}: is a folder", path.display())));
    }
    let length = facts.is_file().then_some(facts.len());
    Ok(Input { bytes: Box::new(BufReader::with_capacity(1 << 16, file)), length })
}

/// The format of the input: as said, else by its name.
pub(super) fn format(args: &ClassifyArgs) -> InputFormat {
    args.batch.input_format.unwrap_or(if is_csv(path(args)) { InputFormat::Csv } else { InputFormat::Jsonl })
}

/// The delimiter of the input: as said, else by its name.
pub(super) fn delimiter(args: &ClassifyArgs) -> u8 {
    args.batch.delimiter.unwrap_or_else(|| delimiter_of(path(args)))
}

/// The delimiter that a file's name says.
pub(super) fn delimiter_of(path: &Path) -> u8 {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tsv")) { b'\t' } else { b',' }
}

/// Whether a file's name says CSV.
pub(super) fn is_csv(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv") || e.eq_ignore_ascii_case("tsv"))
}
