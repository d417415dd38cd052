//! The files of a batch and what may be done to them, whichever command asked.

use std::path::{Path, PathBuf};

use crate::args::{BatchArgs, DecideBatchArgs, InputFormat};

/// Flags that every batch has.
#[derive(Debug, Clone)]
pub(super) struct Files {
    /// `--input`.
    pub(super) input: PathBuf,
    /// `--output`.
    pub(super) output: PathBuf,
    /// `--resume`.
    pub(super) resume: bool,
    /// `--force`.
    pub(super) force: bool,
    /// `--overwrite`.
    pub(super) overwrite: bool,
    /// `--quiet`.
    pub(super) quiet: bool,
    format: Option<InputFormat>,
    delimiter: Option<u8>,
}

impl From<&BatchArgs> for Files {
    fn from(args: &BatchArgs) -> Self {
        Self {
            input: input(args.input.as_deref()),
            output: args.output.clone(),
            resume: args.resume,
            force: args.force,
            overwrite: args.overwrite,
            quiet: args.quiet,
            format: args.input_format,
            delimiter: args.delimiter,
        }
    }
}

/// Bodies of requests are JSON, whatever the file is called.
impl From<&DecideBatchArgs> for Files {
    fn from(args: &DecideBatchArgs) -> Self {
        Self {
            input: input(args.input.as_deref()),
            output: args.output.clone(),
            resume: args.resume,
            force: args.force,
            overwrite: args.overwrite,
            quiet: args.quiet,
            format: Some(InputFormat::Jsonl),
            delimiter: None,
        }
    }
}

/// The command is a batch because `--input` is there.
fn input(path: Option<&Path>) -> PathBuf {
    path.unwrap_or(Path::new("-")).to_owned()
}

impl Files {
    /// The format of the input: as said, else by its name.
    pub(super) fn input_format(&self) -> InputFormat {
        self.format.unwrap_or(if is_csv(&self.input) { InputFormat::Csv } else { InputFormat::Jsonl })
    }

    /// The delimiter of the input: as said, else by its name.
    pub(super) fn input_delimiter(&self) -> u8 {
        self.delimiter.unwrap_or_else(|| delimiter_of(&self.input))
    }

    /// The delimiter of the output: as said, else by its name.
    pub(super) fn output_delimiter(&self) -> u8 {
        self.delimiter.unwrap_or_else(|| delimiter_of(&self.output))
    }
}

/// The name that stands for a standard stream.
pub(super) fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// The delimiter that a file's name says.
fn delimiter_of(path: &Path) -> u8 {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tsv")) { b'\t' } else { b',' }
}

/// Whether a file's name says CSV.
pub(super) fn is_csv(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv") || e.eq_ignore_ascii_case("tsv"))
}
