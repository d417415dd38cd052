//! Rows of CSV: the header, and records with its columns.

use dikast_core::Error;
use serde_json::{Map, Value};

use super::{Fields, Source};
use crate::classify::labels;
use crate::exit::{Failure, Result};

/// Where the columns stand.
#[derive(Debug)]
pub(super) struct Columns {
    count: usize,
    text: usize,
    labels: Option<usize>,
    id: Option<usize>,
    keep: Vec<usize>,
}

impl Columns {
    /// Finds the columns in the header.
    pub(super) fn find(header: &[u8], source: &Source) -> Result<Self> {
        let header =
            std::str::from_utf8(header).map_err(|_| Failure::usage("the CSV header is not UTF-8"))?;
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
        let optional = |(name, asked): &(String, bool)| -> Result<Option<usize>> {
            if *asked { required(name).map(Some) } else { column(name) }
        };
        Ok(Self {
            count: names.len(),
            text: required(&source.text)?,
            labels: source.labels.as_ref().map(optional).transpose()?.flatten(),
            id: optional(&source.id)?,
            keep: source.keep.iter().map(|name| required(name)).collect::<Result<_>>()?,
        })
    }

    /// The fields of a record.
    pub(super) fn fields(&self, record: &str, source: &Source) -> Fields {
        let Some(cells) = split(record, source.delimiter) else {
            return source.failed(Error::invalid("row", "not one CSV record"));
        };
        let cell = |i: usize| cells.get(i).unwrap_or_default();
        let id = self.id.map_or(Value::Null, |i| cell(i).into());
        let kept = self.keep.iter().map(|i| cell(*i).into()).collect();
        let request = if cells.len() == self.count {
            self.own_labels(cell)
                .and_then(|own| source.template.request_with(cell(self.text).to_owned(), own))
        } else {
            let message = format!("{} fields found, {} in the header", cells.len(), self.count);
            Err(Error::invalid("row", message))
        };
        Fields { id, kept, request }
    }

    fn own_labels<'a>(&self, cell: impl Fn(usize) -> &'a str) -> dikast_core::Result<Map<String, Value>> {
        let mut own = Map::new();
        // An empty cell means the labels of the flags.
        if let Some(text) = self.labels.map(cell).filter(|c| !c.trim().is_empty()) {
            own.insert("labels".into(), labels::from_cell(text).map_err(|e| Error::invalid("labels", e))?);
        }
        Ok(own)
    }
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
