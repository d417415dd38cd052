//! Records of the output. A record never spans a group: a group's bytes are written in one go.

mod csv;
mod jsonl;

use std::borrow::Cow;

use dikast_core::answers::Classification;
use dikast_core::{Error, Result};
use serde_json::Value;

use super::{input, reader::Row};
use crate::args::{ClassifyArgs, Format};
use crate::exit::{self, Failure};

pub(super) use csv::HEADER as CSV_COLUMNS;

/// A row and its outcome.
pub(super) struct Record<'a> {
    /// The row.
    pub(super) row: &'a Row,
    /// Its answer, or the row's or the engine's error.
    pub(super) outcome: Result<&'a Classification, &'a Error>,
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
pub(super) struct Encoder {
    /// The format.
    pub(super) format: OutputFormat,
    /// The CSV delimiter.
    pub(super) delimiter: u8,
    /// Names of the kept fields.
    pub(super) keep: Vec<String>,
    /// Most labels of a record.
    pub(super) top_k: Option<usize>,
}

impl Encoder {
    /// The encoder that the flags ask for.
    pub(super) fn from_args(args: &ClassifyArgs) -> exit::Result<Self> {
        let output = &args.batch.output;
        let format = match args.format {
            Some(Format::Jsonl) => OutputFormat::Jsonl,
            Some(Format::Csv) => OutputFormat::Csv,
            None if input::is_csv(output) => OutputFormat::Csv,
            None => OutputFormat::Jsonl,
            Some(Format::Table | Format::Json) => {
                return Err(Failure::usage("the output of a batch is --format jsonl or csv"));
            }
        };
        Ok(Self {
            format,
            delimiter: args.batch.delimiter.unwrap_or_else(|| input::delimiter_of(output)),
            keep: args.batch.keep.clone(),
            top_k: args.top_k.map(|k| k.get()),
        })
    }

    /// What stands before the first record.
    pub(super) fn header(&self) -> Vec<u8> {
        match self.format {
            OutputFormat::Jsonl => Vec::new(),
            OutputFormat::Csv => csv::header(self),
        }
    }

    /// The bytes of a group of records.
    pub(super) fn encode(&self, records: &[Record<'_>]) -> Vec<u8> {
        match self.format {
            OutputFormat::Jsonl => jsonl::encode(self, records),
            OutputFormat::Csv => csv::encode(self, records),
        }
    }

    /// How the record of a row starts; by this a half-written record is told from a foreign file.
    pub(super) fn start_of(&self, row: u64) -> String {
        match self.format {
            OutputFormat::Jsonl => format!("{{\"row\":{row},"),
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

/// A JSON value as a CSV cell: strings as they are, null as nothing, the rest as JSON.
pub(super) fn cell(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
