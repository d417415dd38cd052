//! CSV records. Documented and stable: columns are added at the end, never renamed.

use super::{Encoder, Form, Record, kind};
use crate::exit::advice;

/// The columns before the kept ones.
pub(in crate::batch) const HEADER: [&str; 10] = [
    "row",
    "id",
    "label",
    "score",
    "chosen",
    "labels",
    "error_kind",
    "error_message",
    "dropped_text_tokens",
    "cut_labels",
];

/// The header line.
pub(super) fn header<F>(encoder: &Encoder<F>) -> Vec<u8> {
    let mut writer = writer(encoder);
    let columns = HEADER.into_iter().chain(encoder.keep.iter().map(String::as_str));
    // Writing to memory does not fail, and neither does finishing.
    let _ = writer.write_record(columns);
    writer.into_inner().unwrap_or_default()
}

/// The lines of a group.
pub(super) fn encode<F: Form, Q>(encoder: &Encoder<F>, records: &[Record<'_, Q, F::Answer>]) -> Vec<u8> {
    let mut writer = writer(encoder);
    for record in records {
        let row = record.row;
        let mut cells: Vec<String> = vec![row.number.to_string(), row.id.cell().into_owned()];
        match record.outcome {
            Ok(answer) => cells.extend(encoder.form.cells(answer)),
            Err(error) => {
                cells.extend(std::iter::repeat_n(String::new(), 4));
                cells.extend([kind(error).to_owned(), advice::message(error), String::new(), String::new()]);
            }
        }
        cells.extend(row.kept.iter().map(|v| v.cell().into_owned()));
        let _ = writer.write_record(&cells);
    }
    writer.into_inner().unwrap_or_default()
}

fn writer<F>(encoder: &Encoder<F>) -> csv::Writer<Vec<u8>> {
    csv::WriterBuilder::new().delimiter(encoder.delimiter).from_writer(Vec::new())
}
