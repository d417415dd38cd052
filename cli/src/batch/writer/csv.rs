//! CSV records. Documented and stable: columns are added at the end, never renamed.

use serde_json::Value;

use super::{Encoder, Record, cell, kind};
use crate::classify::ranking;
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
pub(super) fn header(encoder: &Encoder) -> Vec<u8> {
    let mut writer = writer(encoder);
    let columns = HEADER.into_iter().chain(encoder.keep.iter().map(String::as_str));
    // Writing to memory does not fail, and neither does finishing.
    let _ = writer.write_record(columns);
    writer.into_inner().unwrap_or_default()
}

/// The lines of a group.
pub(super) fn encode(encoder: &Encoder, records: &[Record<'_>]) -> Vec<u8> {
    let mut writer = writer(encoder);
    for record in records {
        let row = record.row;
        let mut cells: Vec<String> = vec![row.number.to_string(), cell(&row.id).into_owned()];
        match record.outcome {
            Ok(classification) => {
                let labels = ranking(classification, encoder.top_k);
                let best = labels.iter().find(|l| l.chosen);
                let chosen: Vec<&str> =
                    labels.iter().filter(|l| l.chosen).map(|l| l.label.as_str()).collect();
                cells.push(best.map_or_else(String::new, |l| l.label.clone()));
                cells.push(best.map_or_else(String::new, |l| l.score.to_string()));
                cells.push(Value::from(chosen).to_string());
                cells.push(serde_json::to_string(&labels).unwrap_or_default());
                cells.extend([String::new(), String::new()]);
                cells.push(classification.receipt.dropped_text_tokens.to_string());
                cells.push(Value::from(classification.cut_labels()).to_string());
            }
            Err(error) => {
                cells.extend(std::iter::repeat_n(String::new(), 4));
                cells.extend([kind(error).to_owned(), advice::message(error), String::new(), String::new()]);
            }
        }
        cells.extend(row.kept.iter().map(|v| cell(v).into_owned()));
        let _ = writer.write_record(&cells);
    }
    writer.into_inner().unwrap_or_default()
}

fn writer(encoder: &Encoder) -> csv::Writer<Vec<u8>> {
    csv::WriterBuilder::new().delimiter(encoder.delimiter).from_writer(Vec::new())
}
