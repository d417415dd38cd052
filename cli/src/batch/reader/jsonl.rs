//! A row of JSONL with a text.

use dikast_core::Error;
use dikast_core::request::parse_json;
use serde_json::{Map, Value};

use super::texts::{LABELS, RowLabels, TextSource};
use super::{Fields, Source as _, passed};
use crate::request::{Question, ROW_FIELDS};

/// The fields of a line.
pub(super) fn fields(line: &str, source: &TextSource) -> Fields<Question> {
    let mut object = match parse_json(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return source.failed(Error::invalid("row", "not a JSON object")),
        Err(Error::InvalidRequest { field, message }) => {
            let place = if field == "request" { "row".to_owned() } else { field };
            return source.failed(Error::invalid(place, message));
        }
        Err(e) => return source.failed(e),
    };
    let (id, kept) = passed::on(line, |name| object.contains_key(name), &source.id.0, &source.keep);
    let text = object.remove(&source.text);
    let mut own = Map::new();
    let labels = |object: &mut Map<String, Value>, name: &str| object.remove(name).filter(|l| !l.is_null());
    let mut other = None;
    match &source.labels {
        RowLabels::Own { field, .. } => {
            own.extend(labels(&mut object, field).map(|l| (LABELS.to_owned(), l)));
        }
        RowLabels::Agreeing => other = labels(&mut object, LABELS),
        RowLabels::Flag => {}
    }
    for name in ROW_FIELDS.iter().filter(|name| !source.ignored.iter().any(|i| i == *name)) {
        if let Some(value) = object.remove(*name).filter(|v| !v.is_null()) {
            own.insert((*name).into(), value);
        }
    }
    let question = match text {
        Some(Value::String(text)) => source.question(text, own, other.as_ref()),
        Some(_) => Err(Error::invalid(&source.text, "not a string")),
        None => Err(Error::invalid(&source.text, "missing")),
    };
    Fields { id, kept, question }
}
