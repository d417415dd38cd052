//! JSONL records. Documented and stable: fields are added, never renamed.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Encoder, Record, kind};
use crate::classify::{AnswerLabel, ranking};
use crate::exit::advice;
use crate::terminal::escape_json;

/// A line. `row` comes first: see [`Encoder::start_of`].
#[derive(Serialize)]
struct Line<'a> {
    row: u64,
    id: &'a Value,
    #[serde(flatten)]
    outcome: Outcome<'a>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    kept: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome<'a> {
    Answer {
        label: Option<String>,
        score: Option<f32>,
        labels: Vec<AnswerLabel>,
        tokens: u64,
        dropped_text_tokens: u64,
        cut_labels: Vec<&'a str>,
    },
    Error {
        error: ErrorFields<'a>,
    },
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    kind: &'a str,
    message: String,
}

/// The lines of a group.
pub(super) fn encode(encoder: &Encoder, records: &[Record<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(records.len() * 256);
    for record in records {
        let row = record.row;
        let outcome = match record.outcome {
            Ok(classification) => {
                let labels = ranking(classification, encoder.top_k);
                let best = labels.iter().find(|l| l.chosen);
                Outcome::Answer {
                    label: best.map(|l| l.label.clone()),
                    score: best.map(|l| l.score),
                    tokens: classification.receipt.tokens,
                    dropped_text_tokens: classification.receipt.dropped_text_tokens,
                    cut_labels: classification.cut_labels(),
                    labels,
                }
            }
            Err(error) => {
                Outcome::Error { error: ErrorFields { kind: kind(error), message: advice::message(error) } }
            }
        };
        let kept = encoder.keep.iter().cloned().zip(row.kept.iter().cloned()).collect();
        let line = Line { row: row.number, id: &row.id, outcome, kept };
        // Only a map with keys that are no strings could fail, and there is none.
        if serde_json::to_writer(&mut out, &line).is_ok() {
            out.push(b'\n');
        }
    }
    escape_json(out)
}
