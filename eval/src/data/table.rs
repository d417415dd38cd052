//! CSV and TSV with a header: `text` and `label`, besides `labels`, `id` and `set` where they are there.

use dikast_core::Result;
use dikast_core::request::{ClassifyRequest, LabelSet, Mode};

use super::{Example, File, Gold, ReadOptions, Request, asked, place, unknown};

/// Stands between the labels of a cell `labels`.
const BETWEEN: char = '|';

/// One text of a table.
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) id: Option<String>,
    pub(super) set: Option<String>,
    pub(super) text: String,
    /// The right label; `None` where it is not known.
    pub(super) label: Option<String>,
    /// The labels to choose from, where the row brings them.
    pub(super) labels: Option<Vec<String>>,
}

/// All rows of a table with a header.
pub(super) fn read(file: &File<'_>, delimiter: u8, options: &ReadOptions) -> Result<Vec<Example>> {
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(file.text.as_bytes());
    let headers = reader.headers().map_err(|e| file.fault(1, e))?.clone();
    let column = |name: &str| headers.iter().position(|h| h.trim().eq_ignore_ascii_case(name));
    let text = column("text").ok_or_else(|| file.fault(1, "the header has no column text"))?;
    let columns = ["id", "set", "label", "labels"].map(column);
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| {
            let line = e.position().map_or(0, csv::Position::line);
            file.fault(line, e)
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |at: Option<usize>| {
            at.and_then(|i| record.get(i)).map(str::trim).filter(|c| !c.is_empty()).map(str::to_owned)
        };
        let [id, set, label, labels] = columns.map(cell);
        let labels = labels.map(|l| l.split(BETWEEN).map(|l| l.trim().to_owned()).collect());
        let text = record.get(text).unwrap_or_default().to_owned();
        rows.push(Row { line, id, set, text, label, labels });
    }
    // Without labels of their own, texts are judged by all that the file names, in the order in which they first stand.
    let mut all: Vec<String> = Vec::new();
    for label in rows.iter().filter_map(|r| r.label.as_ref()) {
        if !all.contains(label) {
            all.push(label.clone());
        }
    }
    let all = options.labels.clone().unwrap_or(all);
    rows.into_iter().map(|row| example(file, row, &all, options)).collect()
}

/// The example of a row.
pub(super) fn example(
    file: &File<'_>,
    row: Row,
    labels: &[String],
    options: &ReadOptions,
) -> Result<Example> {
    let labels = row.labels.unwrap_or_else(|| labels.to_vec());
    if labels.is_empty() {
        return Err(
            file.fault(row.line, "no labels found: a column label or labels is needed, or labels for all")
        );
    }
    let mut request = ClassifyRequest::new(row.text, LabelSet::flat(labels.iter().cloned()));
    request.mode = Mode::SingleLabel;
    request.prompt.clone_from(&options.prompt);
    request.validate().map_err(file.at(row.line))?;
    let gold = match &row.label {
        None => None,
        Some(label) => {
            Some(Gold::One(place(&labels, label).ok_or_else(|| unknown(file, row.line, label, &labels))?))
        }
    };
    let questions = vec![asked(&request, gold)];
    Ok(Example {
        id: row.id.unwrap_or_else(|| format!("{}:{}", file.name, row.line)),
        set: row.set.unwrap_or_else(|| file.set().to_owned()),
        request: Request::Classify(request),
        questions,
    })
}
