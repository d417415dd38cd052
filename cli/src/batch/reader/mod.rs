//! Rows of a JSONL or CSV stream, each a request of its own or the reason why it is none.

pub(super) mod bodies;
mod csv;
pub(super) mod framing;
pub(super) mod hashed;
mod jsonl;
mod passed;
pub(super) mod texts;

use std::io::BufRead;

use dikast_core::{Error, Result};

use super::verbatim::Verbatim;
use crate::args::InputFormat;
use crate::exit::{self, Failure};
use framing::{Ending, Framing, Records};
use hashed::{Hashed, Mark};

/// One row of the input.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row<Q> {
    /// Number from 0; blank lines and the CSV header do not count.
    pub(super) number: u64,
    /// The row's id; null when it has none.
    pub(super) id: Verbatim,
    /// The values of the `--keep` fields, in that order; null where the row has none.
    pub(super) kept: Vec<Verbatim>,
    /// The question, or why the row is none.
    pub(super) question: Result<Q>,
    /// Bytes of the row in the input.
    pub(super) bytes: usize,
}

/// What a command makes of a record's text.
pub(super) struct Fields<Q> {
    id: Verbatim,
    kept: Vec<Verbatim>,
    question: Result<Q>,
}

/// How a command reads the records of its input.
pub(super) trait Source {
    /// What a row asks.
    type Question;

    /// Longest row in bytes; a longer one gets an error record and is never held in memory.
    const MAX_ROW_BYTES: usize;

    /// The format of the input.
    fn format(&self) -> InputFormat;

    /// The delimiter of a CSV input.
    fn delimiter(&self) -> u8;

    /// Takes the header of a CSV input.
    ///
    /// # Errors
    /// The header lacks a column, or is no header.
    fn begin(&mut self, header: &[u8]) -> exit::Result<()>;

    /// The fields of a record.
    fn fields(&self, record: &str) -> Fields<Self::Question>;

    /// How many fields of a row are copied to the output.
    fn kept(&self) -> usize;

    /// A row of which only the error is known.
    fn failed(&self, error: Error) -> Fields<Self::Question> {
        let kept = vec![Verbatim::default(); self.kept()];
        Fields { id: Verbatim::default(), kept, question: Err(error) }
    }
}

/// Reads rows.
pub(super) struct Reader<R, S> {
    records: Records<Hashed<R>>,
    record: Vec<u8>,
    source: S,
    next: u64,
}

impl<R: BufRead, S: Source> Reader<R, S> {
    /// A reader at the first row; a CSV header is read and checked.
    ///
    /// # Errors
    /// The stream fails, is not UTF-8 text, or its header lacks a column.
    pub(super) fn new(stream: R, source: S) -> exit::Result<Self> {
        let mut stream = Hashed::new(stream);
        skip_bom(&mut stream)?;
        let framing = match source.format() {
            InputFormat::Jsonl => Framing::Lines,
            InputFormat::Csv => Framing::Csv { delimiter: source.delimiter() },
        };
        let records = Records::new(stream, framing, S::MAX_ROW_BYTES);
        let mut reader = Self { records, record: Vec::new(), source, next: 0 };
        if reader.source.format() == InputFormat::Csv {
            let ending = reader.next_record()?;
            let header = match ending {
                Some(Ending::Complete | Ending::EndOfStream { quoted: false }) => &reader.record[..],
                None => return Err(Failure::usage("the CSV input is empty: it needs a header")),
                Some(_) => return Err(Failure::usage("the CSV header is too long or has an open quote")),
            };
            reader.source.begin(header)?;
        }
        Ok(reader)
    }

    /// Bytes of the input consumed so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.records.position()
    }

    /// Rows read so far.
    pub(super) fn rows_read(&self) -> u64 {
        self.next
    }

    /// What of the input was read so far.
    pub(super) fn mark(&self) -> Mark {
        self.records.stream().mark()
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// Only when the stream fails; a bad row is a row with an error.
    pub(super) fn next_row(&mut self) -> exit::Result<Option<Row<S::Question>>> {
        let before = self.records.position();
        let Some(ending) = self.next_record()? else { return Ok(None) };
        let fields = match ending {
            Ending::TooLong { quoted } => self.source.failed(Error::TooLarge {
                what: if quoted { "row bytes (a quote is never closed)" } else { "row bytes" }.to_owned(),
                limit: S::MAX_ROW_BYTES as u64,
                actual: self.records.position() - before,
            }),
            Ending::EndOfStream { quoted: true } => {
                self.source.failed(Error::invalid("row", "a quote is never closed"))
            }
            Ending::Complete | Ending::EndOfStream { quoted: false } => {
                match std::str::from_utf8(&self.record) {
                    Err(e) => self
                        .source
                        .failed(Error::invalid("row", format!("not UTF-8 (at byte {})", e.valid_up_to()))),
                    Ok(text) => self.source.fields(text),
                }
            }
        };
        let number = self.next;
        self.next += 1;
        let Fields { id, kept, question } = fields;
        Ok(Some(Row { number, id, kept, question, bytes: self.record.len() }))
    }

    /// The next record that is not blank.
    fn next_record(&mut self) -> exit::Result<Option<Ending>> {
        loop {
            let ending =
                self.records.next_into(&mut self.record).map_err(Failure::io("reading the input"))?;
            let blank = match self.source.format() {
                InputFormat::Jsonl => self.record.iter().all(u8::is_ascii_whitespace),
                // Spaces and tabs may be cells, or the delimiters of empty ones.
                InputFormat::Csv => matches!(&self.record[..], b"" | b"\r"),
            };
            match ending {
                Some(Ending::Complete | Ending::EndOfStream { .. }) if blank => {}
                _ => return Ok(ending),
            }
        }
    }
}

/// Skips a UTF-8 byte order mark and refuses UTF-16, of which every row would be an error.
fn skip_bom(stream: &mut impl BufRead) -> exit::Result<()> {
    let start = stream.fill_buf().map_err(Failure::io("reading the input"))?;
    if start.starts_with(&[0xFF, 0xFE]) || start.starts_with(&[0xFE, 0xFF]) {
        return Err(Failure::usage("the input is UTF-16: convert it to UTF-8"));
    }
    if start.starts_with(b"\xEF\xBB\xBF") {
        stream.consume(3);
    }
    Ok(())
}
