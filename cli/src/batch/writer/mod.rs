//! Records of the output. A record never spans a group: a group's bytes are written in one go.

mod csv;
mod decisions;
mod jsonl;
mod labels;

use dikast_core::answers::DecideOutput;
use dikast_core::{Error, Result};
use serde::Serialize;

use super::files::{Files, is_csv};
use super::reader::Row;
use crate::args::{ClassifyArgs, DecideArgs, Format};
use crate::exit::{self, Failure};

pub(super) use csv::HEADER as CSV_COLUMNS;

/// A row and its outcome.
pub(super) struct Record<'a, Q, A> {
    /// The row.
    pub(super) row: &'a Row<Q>,
    /// Its answer, or the row's or the engine's error.
    pub(super) outcome: Result<&'a A, &'a Error>,
}

/// How answers are written.
pub(super) trait Form {
    /// What is written.
    type Answer;
    /// The fields of a JSONL record.
    type Fields<'a>: Serialize
    where
        Self: 'a;

    /// The field that every answer has, and no error record.
    const MARK: &'static str;

    /// The fields of an answer in a JSONL record.
    fn fields<'a>(&'a self, answer: &'a Self::Answer) -> Self::Fields<'a>;

    /// The cells of an answer in a CSV record, from `label` to `cut_labels`. Only labels are written as CSV.
    fn cells(&self, _: &Self::Answer) -> Vec<String> {
        Vec::new()
    }
}

/// The answers of `classify`.
#[derive(Debug, Clone)]
pub(super) struct Labels {
    /// Most labels of a record.
    pub(super) top_k: Option<usize>,
}

/// The answers of `decide`.
#[derive(Debug, Clone)]
pub(super) struct Decisions {
    /// How numbers are written, and whether with a receipt.
    pub(super) output: DecideOutput,
}

/// `jsonl` or `csv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputFormat {
    /// One JSON object a line.
    Jsonl,
    /// CSV with a header.
    Csv,
}

/// Turns records into bytes.
#[derive(Debug, Clone)]
pub(super) struct Encoder<F> {
    /// The format.
    pub(super) format: OutputFormat,
    /// The CSV delimiter.
    pub(super) delimiter: u8,
    /// Names of the kept fields.
    pub(super) keep: Vec<String>,
    /// How answers are written.
    pub(super) form: F,
}

impl Encoder<Labels> {
    /// The encoder that the flags ask for.
    pub(super) fn of_labels(args: &ClassifyArgs, files: &Files) -> exit::Result<Self> {
        let format = match args.format {
            Some(Format::Jsonl) => OutputFormat::Jsonl,
            Some(Format::Csv) => OutputFormat::Csv,
            None if is_csv(&files.output) => OutputFormat::Csv,
            None => OutputFormat::Jsonl,
            Some(Format::Table | Format::Json) => {
                return Err(Failure::usage("the output of a batch is --format jsonl or csv"));
            }
        };
        let keep = &args.batch.keep;
        check_keep(keep)?;
        for name in keep {
            if format == OutputFormat::Csv && CSV_COLUMNS.contains(&name.as_str()) {
                let message = format!(
                    "--keep {name}: the CSV output has a column {name} of its own; use --format jsonl"
                );
                return Err(Failure::usage(message));
            }
        }
        Ok(Self {
            format,
            delimiter: files.output_delimiter(),
            keep: keep.clone(),
            form: Labels { top_k: args.top_k.map(|k| k.get()) },
        })
    }
}

impl Encoder<Decisions> {
    /// The encoder that the flags ask for.
    pub(super) fn of_decisions(args: &DecideArgs, files: &Files) -> exit::Result<Self> {
        check_keep(&args.batch.keep)?;
        Ok(Self {
            format: OutputFormat::Jsonl,
            delimiter: files.output_delimiter(),
            keep: args.batch.keep.clone(),
            form: Decisions { output: args.output() },
        })
    }
}

/// Refuses to keep a field twice.
fn check_keep(keep: &[String]) -> exit::Result<()> {
    for (i, name) in keep.iter().enumerate() {
        if keep[..i].contains(name) {
            return Err(Failure::usage(format!("--keep {name} is given twice")));
        }
    }
    Ok(())
}

impl<F: Form> Encoder<F> {
    /// What stands before the first record.
    pub(super) fn header(&self) -> Vec<u8> {
        match self.format {
            OutputFormat::Jsonl => Vec::new(),
            OutputFormat::Csv => csv::header(self),
        }
    }

    /// The bytes of a group of records.
    pub(super) fn encode<Q>(&self, records: &[Record<'_, Q, F::Answer>]) -> Vec<u8> {
        match self.format {
            OutputFormat::Jsonl => jsonl::encode(self, records),
            OutputFormat::Csv => csv::encode(self, records),
        }
    }

    /// How the record of a row starts; by this a half-written record is told from a foreign file.
    pub(super) fn start_of(&self, row: u64) -> String {
        match self.format {
            OutputFormat::Jsonl => format!("{{\"row\":{row},\"id\":"),
            OutputFormat::Csv => format!("{row}{}", char::from(self.delimiter)),
        }
    }
}

/// The name of an error's class.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::InvalidRequest { .. } => "invalid_request",
        Error::TooLarge { .. } => "too_large",
        Error::Checkpoint { .. } => "checkpoint",
        Error::Unsupported { .. } => "unsupported",
        Error::OutOfMemory { .. } => "out_of_memory",
        Error::DeviceLost { .. } => "device_lost",
        Error::Io { .. } => "io",
        _ => "internal",
    }
}
