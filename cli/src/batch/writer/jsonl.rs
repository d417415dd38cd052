//! JSONL records. Documented and stable: fields are added, never renamed.

use serde::{Serialize, Serializer};

use super::{Encoder, Form, Record, kind};
use crate::batch::verbatim::Verbatim;
use crate::exit::advice;
use crate::terminal::escape_json;

/// A line. `row` comes first: see [`Encoder::start_of`].
#[derive(Serialize)]
struct Line<'a, A> {
    row: u64,
    id: &'a Verbatim,
    #[serde(flatten)]
    outcome: Outcome<'a, A>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<Kept<'a>>,
}

/// The kept fields, in the order of the flags.
struct Kept<'a> {
    names: &'a [String],
    values: &'a [Verbatim],
}

impl Serialize for Kept<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.names.iter().zip(self.values))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome<'a, A> {
    Answer(A),
    Error { error: ErrorFields<'a> },
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    kind: &'a str,
    message: String,
}

/// The lines of a group.
pub(super) fn encode<F: Form, Q>(encoder: &Encoder<F>, records: &[Record<'_, Q, F::Answer>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(records.len() * 256);
    for record in records {
        let row = record.row;
        let outcome = match record.outcome {
            Ok(answer) => Outcome::Answer(encoder.form.fields(answer)),
            Err(error) => {
                Outcome::Error { error: ErrorFields { kind: kind(error), message: advice::message(error) } }
            }
        };
        let kept = (!row.kept.is_empty()).then_some(Kept { names: &encoder.keep, values: &row.kept });
        let line = Line { row: row.number, id: &row.id, outcome, kept };
        // Only a map with keys that are no strings could fail, and there is none.
        if serde_json::to_writer(&mut out, &line).is_ok() {
            out.push(b'\n');
        }
    }
    escape_json(out)
}
