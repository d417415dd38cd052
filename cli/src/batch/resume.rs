//! Continuing an interrupted output file.
//!
//! The file itself says how far it got: its records are numbered from 0 without a gap, and the input is read in
//! step with them, so that nothing is repeated and nothing is lost. What was asked, and of which input, stands in the
//! [`super::sidecar`]. A half-written last record is dropped; anything else that a run did not write is refused
//! untouched.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek as _, SeekFrom};

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::reader::framing::{Ending, Framing, Records};
use super::reader::{Reader, Row, Source};
use super::verbatim::Verbatim;
use super::writer::{CSV_COLUMNS, Encoder, Form, OutputFormat};
use crate::exit::{Failure, Result};
use crate::terminal::counted;

/// Longest record that is looked at; ours are shorter by far unless a row has megabytes of labels.
const MAX_RECORD_BYTES: usize = 64 << 20;

/// What an output file already holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Done {
    /// Rows.
    pub(super) rows: u64,
    /// Rows with an error record.
    pub(super) failed: u64,
    /// Bytes of whole records, header included.
    pub(super) bytes: u64,
}

/// Checks the file, cuts a half-written record off its end, and moves the reader behind its last row. Nothing is cut
/// unless `approve` agrees to what was found.
pub(super) fn continue_file<R: BufRead, S: Source, F: Form>(
    file: &File,
    name: &str,
    encoder: &Encoder<F>,
    reader: &mut Reader<R, S>,
    approve: impl FnOnce(Done, &mut Reader<R, S>) -> Result<()>,
) -> Result<Done> {
    let io = || Failure::io(format!("reading {name}"));
    let mut handle = file;
    handle.seek(SeekFrom::Start(0)).map_err(io())?;
    let done = scan(BufReader::with_capacity(1 << 16, file), name, encoder, reader)?;
    approve(done, reader)?;
    if file.metadata().map_err(io())?.len() > done.bytes {
        file.set_len(done.bytes).map_err(Failure::io(format!("shortening {name}")))?;
    }
    handle.seek(SeekFrom::End(0)).map_err(io())?;
    Ok(done)
}

/// Why a file is not continued.
pub(super) fn refused(name: &str, message: &str) -> Failure {
    Failure::usage(format!("{name}: cannot be resumed: {message}"))
}

/// Walks over the records of `stream` and the rows of `reader` in step.
fn scan<T: BufRead, R: BufRead, S: Source, F: Form>(
    stream: T,
    name: &str,
    encoder: &Encoder<F>,
    reader: &mut Reader<R, S>,
) -> Result<Done> {
    let framing = match encoder.format {
        OutputFormat::Jsonl => Framing::Lines,
        OutputFormat::Csv => Framing::Csv { delimiter: encoder.delimiter },
    };
    let refuse = |message: String| refused(name, &message);
    let mut records = Records::new(stream, framing, MAX_RECORD_BYTES);
    let mut record = Vec::new();
    let mut done = Done::default();
    let header = encoder.header();
    let mut header_due = !header.is_empty();
    while let Some(ending) = records.next_into(&mut record).map_err(Failure::io(format!("reading {name}")))? {
        let expected = if header_due {
            String::from_utf8_lossy(&header).into_owned()
        } else {
            encoder.start_of(done.rows)
        };
        match ending {
            Ending::TooLong { .. } => return Err(refuse(format!("record {} is too long", done.rows))),
            Ending::EndOfStream { .. }
                if is_start(&record, expected.as_bytes()) && !is_foreign(&record, encoder) =>
            {
                break;
            }
            Ending::EndOfStream { .. } => return Err(refuse("its last line is not a record of ours".into())),
            Ending::Complete if header_due => {
                if record != header.trim_ascii_end() {
                    return Err(refuse("its header is not the one of this run".into()));
                }
                header_due = false;
            }
            Ending::Complete => {
                let existing = parse(&record, encoder)
                    .ok_or_else(|| refuse(format!("record {} is not one of ours", done.rows)))?;
                if existing.row != done.rows {
                    return Err(refuse(format!(
                        "row {} stands where row {} should",
                        existing.row, done.rows
                    )));
                }
                let row = reader.next_row()?.ok_or_else(|| {
                    refuse(format!(
                        "it has more rows than the input, which has {}",
                        counted(done.rows, "row")
                    ))
                })?;
                if !existing.has_id(&row, encoder.format) {
                    return Err(refuse(format!("row {} has another id in the input", done.rows)));
                }
                done.rows += 1;
                done.failed += u64::from(existing.failed);
            }
        }
        done.bytes = records.position();
    }
    Ok(done)
}

/// Whether `cut` can be the beginning of a record that begins with `start`.
fn is_start(cut: &[u8], start: &[u8]) -> bool {
    let n = cut.len().min(start.len());
    cut[..n] == start[..n]
}

/// Whether a line without an end is a whole object all the same, and none of ours.
fn is_foreign<F: Form>(record: &[u8], encoder: &Encoder<F>) -> bool {
    encoder.format == OutputFormat::Jsonl
        && serde_json::from_slice::<IgnoredAny>(record).is_ok()
        && parse_json(record, F::MARK).is_none()
}

/// What resuming needs to know of a record.
struct Existing {
    row: u64,
    id: Verbatim,
    failed: bool,
}

impl Existing {
    fn has_id<Q>(&self, row: &Row<Q>, format: OutputFormat) -> bool {
        match format {
            // The output escapes some characters that the input may have as they are.
            OutputFormat::Jsonl => self.id.value() == row.id.value(),
            OutputFormat::Csv => self.id.cell() == row.id.cell(),
        }
    }
}

fn parse<F: Form>(record: &[u8], encoder: &Encoder<F>) -> Option<Existing> {
    match encoder.format {
        OutputFormat::Jsonl => parse_json(record, F::MARK),
        OutputFormat::Csv => parse_csv(record, encoder),
    }
}

/// `mark` is the field that every answer has, and no error record.
fn parse_json(record: &[u8], mark: &str) -> Option<Existing> {
    let fields: HashMap<String, &RawValue> = serde_json::from_slice(record).ok()?;
    let row = serde_json::from_str(fields.get("row")?.get()).ok()?;
    let failed = fields.contains_key("error");
    // Exactly one of the two makes it a record of ours.
    (fields.contains_key(mark) != failed).then_some(Existing {
        row,
        id: Verbatim::from(*fields.get("id")?),
        failed,
    })
}

fn parse_csv<F>(record: &[u8], encoder: &Encoder<F>) -> Option<Existing> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(encoder.delimiter)
        .terminator(csv::Terminator::Any(b'\n'))
        .buffer_capacity(record.len().clamp(64, 1 << 16))
        .from_reader(record);
    let mut cells = csv::StringRecord::new();
    if !reader.read_record(&mut cells).ok()? || cells.len() != CSV_COLUMNS.len() + encoder.keep.len() {
        return None;
    }
    let failed = CSV_COLUMNS.iter().position(|c| *c == "error_kind").and_then(|i| cells.get(i))?;
    Some(Existing { row: cells.get(0)?.parse().ok()?, id: cells.get(1)?.into(), failed: !failed.is_empty() })
}

#[cfg(test)]
mod tests;
