//! A row of JSONL.

use dikast_core::Error;
use serde_json::{Map, Value};

use super::{Fields, LABELS, RowLabels, Source};
use crate::request::ROW_FIELDS;

/// The fields of a line.
pub(super) fn fields(line: &str, source: &Source) -> Fields {
    let mut object = match serde_json::from_str(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return source.failed(Error::invalid("row", "not a JSON object")),
        Err(e) => return source.failed(Error::invalid("row", format!("not valid JSON: {e}"))),
    };
    // Kept fields and the id are copied first: one of them may be the text.
    let kept = source.keep.iter().map(|name| object.get(name).cloned().unwrap_or(Value::Null)).collect();
    let id = object.get(&source.id.0).cloned().unwrap_or(Value::Null);
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
