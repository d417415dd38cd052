//! Rows of CSV: the header, and records with its columns.

use dikast_core::Error;
use serde_json::{Map, Value};

use super::texts::{LABELS, RowLabels, TextSource};
use super::{Fields, Source as _};
use crate::batch::verbatim::Verbatim;
use crate::classify::labels;
use crate::exit::{Failure, Result};
use crate::request::Question;
use crate::terminal::counted;

/// Where the columns stand.
#[derive(Debug)]
pub(super) struct Columns {
    count: usize,
    text: usize,
    /// The column of labels, and whether it only has to agree with the flag.
    labels: Option<(usize, bool)>,
    id: Option<usize>,
    keep: Vec<usize>,
}

impl Columns {
    /// Finds the columns in the header.
    pub(super) fn find(header: &[u8], source: &TextSource) -> Result<Self> {
        let header =
            std::str::from_utf8(header).map_err(|_| Failure::usage("the CSV header is not UTF-8"))?;
        if has_bare_cr(header) {
            return Err(Failure::usage(
                "the CSV header has a carriage return without a line feed: lines must end with LF or CRLF",
            ));
        }
        let names = split(header, source.delimiter)
            .ok_or_else(|| Failure::usage("the CSV header is not one record"))?;
        let column = |name: &str| -> Result<Option<usize>> {
            let mut found = names.iter().enumerate().filter(|(_, n)| n.trim() == name).map(|(i, _)| i);
            let first = found.next();
            match found.next() {
                Some(_) => Err(Failure::usage(format!("column {name} stands twice in the CSV header"))),
                None => Ok(first),
            }
        };
        let required = |name: &str| -> Result<usize> {
            column(name)?.ok_or_else(|| {
                let list: Vec<&str> = names.iter().map(str::trim).collect();
                let list = list.join(", ");
                Failure::usage(format!("no column {name} in the CSV header; its columns are: {list}"))
            })
        };
        let optional = |name: &str, asked: bool| -> Result<Option<usize>> {
            if asked { required(name).map(Some) } else { column(name) }
        };
        let labels = match &source.labels {
            RowLabels::Own { field, asked } => optional(field, *asked)?.map(|i| (i, false)),
            RowLabels::Agreeing => optional(LABELS, false)?.map(|i| (i, true)),
            RowLabels::Flag => None,
        };
        Ok(Self {
            count: names.len(),
            text: required(&source.text)?,
            labels,
            id: optional(&source.id.0, source.id.1)?,
            keep: source.keep.iter().map(|name| required(name)).collect::<Result<_>>()?,
        })
    }

    /// The fields of a record.
    pub(super) fn fields(&self, record: &str, source: &TextSource) -> Fields<Question> {
        let Some(cells) = split(record, source.delimiter) else {
            return source.failed(Error::invalid("row", "not one CSV record"));
        };
        let cell = |i: usize| cells.get(i).unwrap_or_default();
        let id = self.id.map_or_else(Verbatim::default, |i| cell(i).into());
        let kept = self.keep.iter().map(|i| cell(*i).into()).collect();
        let question = if cells.len() == self.count {
            self.question(cell, source)
        } else {
            let message =
                format!("{} found, {} in the header", counted(cells.len() as u64, "field"), self.count);
            Err(Error::invalid("row", message))
        };
        Fields { id, kept, question }
    }

    fn question<'a>(
        &self,
        cell: impl Fn(usize) -> &'a str,
        source: &TextSource,
    ) -> dikast_core::Result<Question> {
        let mut own = Map::new();
        let mut other = None;
        // An empty cell means the labels of the flags.
        if let Some((column, agreeing)) = self.labels
            && !cell(column).trim().is_empty()
        {
            match labels::from_cell(cell(column)) {
                Ok(labels) if !agreeing => {
                    own.insert(LABELS.into(), labels);
                }
                Ok(labels) => other = Some(labels),
                // No list of labels agrees with the flag's.
                Err(_) if agreeing => other = Some(Value::Null),
                Err(message) => return Err(Error::invalid(LABELS, message)),
            }
        }
        source.question(cell(self.text).to_owned(), own, other.as_ref())
    }
}

/// Whether a carriage return stands alone: in a file of such line ends the header would swallow every row.
fn has_bare_cr(text: &str) -> bool {
    text.split('\r').skip(1).any(|rest| !rest.starts_with('\n'))
}

/// The cells of one record.
fn split(record: &str, delimiter: u8) -> Option<csv::StringRecord> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        // A lone carriage return inside a cell is content here.
        .terminator(csv::Terminator::Any(b'\n'))
        .buffer_capacity(record.len().clamp(64, 1 << 16))
        .from_reader(record.as_bytes());
    let mut cells = csv::StringRecord::new();
    reader.read_record(&mut cells).ok()?.then_some(cells)
}
