//! Lines of texts with labels.

use std::collections::BTreeSet;

use dikast_core::Result;
use dikast_core::request::{ClassifyRequest, Mode};
use serde_json::{Map, Value, json};

use super::{File, Gold, Question, ReadOptions, Request, asked, place, unknown};

/// Keys of a line that are no part of its request.
const OWN: [&str; 7] = ["id", "set", "domain", "kind", "lang", "expected", "note"];

/// The request and the question of a line. `expected` is one label, or a list of labels where several may be right;
/// without `multi_label` that decides whether the labels compete.
pub(super) fn line(
    file: &File<'_>,
    number: u64,
    map: &Map<String, Value>,
    options: &ReadOptions,
) -> Result<(Request, Vec<Question>)> {
    let mut body = map.clone();
    for key in OWN {
        body.shift_remove(key);
    }
    if let Some(labels) = options.labels.as_ref().filter(|_| !body.contains_key("labels")) {
        body.insert("labels".to_owned(), json!(labels));
    }
    if let Some(prompt) = options.prompt.as_ref().filter(|_| !body.contains_key("prompt")) {
        body.insert("prompt".to_owned(), json!(prompt));
    }
    if body.get("chunking").is_some_and(|v| !v.is_null()) {
        return Err(file.fault(number, "chunking has no single logit a label, so it cannot be compared"));
    }
    let says =
        ["multi_label", "classification_type"].iter().any(|k| body.get(*k).is_some_and(|v| !v.is_null()));
    let mut request = ClassifyRequest::from_json(&Value::Object(body)).map_err(file.at(number))?;
    let expected = map.get("expected").filter(|v| !v.is_null());
    if !says {
        let several = expected.is_some_and(Value::is_array);
        request.mode = if several { Mode::MultiLabel } else { Mode::SingleLabel };
    }
    let names = request.labels.names();
    let place = |value: &Value| {
        let label = value.as_str().ok_or_else(|| file.fault(number, "expected is no label"))?;
        place(names, label).ok_or_else(|| unknown(file, number, label, names))
    };
    let gold = match (expected, request.mode) {
        (None, _) => None,
        (Some(Value::Array(labels)), Mode::MultiLabel) => {
            Some(Gold::Many(labels.iter().map(place).collect::<Result<BTreeSet<_>>>()?))
        }
        (Some(Value::Array(labels)), Mode::SingleLabel) => match labels.as_slice() {
            [one] => Some(Gold::One(place(one)?)),
            _ => {
                return Err(file.fault(number, "several labels are expected, but they compete (multi_label)"));
            }
        },
        (Some(one), Mode::SingleLabel) => Some(Gold::One(place(one)?)),
        (Some(one), Mode::MultiLabel) => Some(Gold::Many([place(one)?].into())),
    };
    let question = asked(&request, gold);
    Ok((Request::Classify(request), vec![question]))
}
