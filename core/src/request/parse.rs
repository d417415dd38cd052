//! The strict JSON form of a classification request.

use super::labels::DEFAULT_SEPARATOR;
use super::quote::{kind, quote};
use super::{Chunking, ClassifyRequest, Example, LabelSet, Mode, Strictness, Truncation};
use crate::{Error, Result};
use serde_json::{Map, Value};

const REQUEST: &[&str] = &[
    "text",
    "labels",
    "label_separator",
    "multi_label",
    "classification_type",
    "threshold",
    "prompt",
    "examples",
    "truncation",
    "truncate",
    "max_tokens",
    "chunking",
    "allow_duplicate_labels",
    "allow_markers",
    "allow_empty_labels",
];
const EXAMPLE: &[&str] = &["text", "labels", "true_labels"];
const CHUNKING: &[&str] = &["text_chars", "overlap_chars", "labels"];

impl ClassifyRequest {
    /// A checked request from JSON.
    ///
    /// `text` and `labels` are needed; every other field may be absent or null. Unknown fields are refused by name.
    ///
    /// - `labels`: see [`LabelSet::from_json`]; `label_separator` joins the levels of a hierarchy.
    /// - `multi_label`: boolean, or `classification_type`: `single`, `single-label`, `single_label`, `multi`,
    ///   `multi-label`, `multi_label`, in any case and with spaces around.
    /// - `examples`: list of `{text, labels}`, where labels (or `true_labels`) is a list of strings or one string.
    /// - `truncation`: `refuse`, `text` or `right`, or `truncate`: boolean (`true` is `text`).
    /// - `chunking`: `{text_chars, overlap_chars, labels}`, each with its default.
    pub fn from_json(value: &Value) -> Result<Self> {
        let map = object("request", value)?;
        known_fields("", map, REQUEST)?;
        let separator = match present(map, "label_separator") {
            Some(value) => string("label_separator", value)?,
            None => DEFAULT_SEPARATOR,
        };
        let labels = LabelSet::from_json_with(needed(map, "labels")?, separator)?;
        let mut request = Self::new(string("text", needed(map, "text")?)?, labels);
        request.mode = mode(map)?;
        if let Some(value) = present(map, "threshold") {
            request.threshold = threshold(value)?;
        }
        if let Some(value) = present(map, "prompt") {
            request.prompt = Some(string("prompt", value)?.to_owned());
        }
        if let Some(value) = present(map, "examples") {
            request.examples = examples(value)?;
        }
        request.truncation = truncation(map)?;
        if let Some(value) = present(map, "max_tokens") {
            request.max_tokens = Some(count("max_tokens", value)?);
        }
        if let Some(value) = present(map, "chunking") {
            request.chunking = Some(chunking(value)?);
        }
        request.strictness = Strictness {
            allow_duplicate_labels: flag(map, "allow_duplicate_labels")?.unwrap_or(false),
            allow_markers: flag(map, "allow_markers")?.unwrap_or(false),
            allow_empty_labels: flag(map, "allow_empty_labels")?.unwrap_or(false),
        };
        request.validate()?;
        Ok(request)
    }
}

impl Mode {
    /// The mode of a `classification_type`; trimmed, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.trim().to_lowercase().as_str() {
            "single" | "single-label" | "single_label" => Some(Self::SingleLabel),
            "multi" | "multi-label" | "multi_label" => Some(Self::MultiLabel),
            _ => None,
        }
    }

    /// The spelling used in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::MultiLabel => "multi-label",
            Self::SingleLabel => "single-label",
        }
    }
}

fn mode(map: &Map<String, Value>) -> Result<Mode> {
    let named = match present(map, "classification_type") {
        None => None,
        Some(value) => {
            let name = string("classification_type", value)?;
            let mode = Mode::from_name(name).ok_or_else(|| {
                let message = format!("{} found, single-label or multi-label is allowed", quote(name));
                Error::invalid("classification_type", message)
            })?;
            Some(mode)
        }
    };
    let flagged =
        flag(map, "multi_label")?.map(|multi| if multi { Mode::MultiLabel } else { Mode::SingleLabel });
    agree("multi_label", flagged, "classification_type", named).map(Option::unwrap_or_default)
}

fn truncation(map: &Map<String, Value>) -> Result<Truncation> {
    let named = match present(map, "truncation") {
        None => None,
        Some(value) => Some(match string("truncation", value)? {
            "refuse" => Truncation::Refuse,
            "text" => Truncation::Text,
            "right" => Truncation::Right,
            other => {
                let message = format!("{} found, refuse, text or right is allowed", quote(other));
                return Err(Error::invalid("truncation", message));
            }
        }),
    };
    let flagged = flag(map, "truncate")?.map(|cut| if cut { Truncation::Text } else { Truncation::Refuse });
    agree("truncate", flagged, "truncation", named).map(Option::unwrap_or_default)
}

fn agree<T: PartialEq>(flag: &str, flagged: Option<T>, name: &str, named: Option<T>) -> Result<Option<T>> {
    match (flagged, named) {
        (Some(a), Some(b)) if a != b => {
            Err(Error::invalid(flag, format!("contradicts {name}; one of the two is enough")))
        }
        (a, b) => Ok(a.or(b)),
    }
}

fn threshold(value: &Value) -> Result<f32> {
    let number = value.as_f64().ok_or_else(|| wrong("threshold", value, "a number in 0..=1"))?;
    // Checked before rounding: 1 + 1e-9 is not 1.
    if !(0.0..=1.0).contains(&number) {
        return Err(Error::invalid("threshold", format!("{number} found, a number in 0..=1 is allowed")));
    }
    Ok(number as f32)
}

fn examples(value: &Value) -> Result<Vec<Example>> {
    list("examples", value)?
        .iter()
        .enumerate()
        .map(|(i, value)| {
            let field = format!("examples[{i}]");
            let map = object(&field, value)?;
            known_fields(&field, map, EXAMPLE)?;
            let under = |name: &str| format!("{field}.{name}");
            let text = present(map, "text").ok_or_else(|| Error::invalid(under("text"), "missing"))?;
            let (name, labels) = match (present(map, "labels"), present(map, "true_labels")) {
                (Some(_), Some(_)) => {
                    return Err(Error::invalid(
                        under("true_labels"),
                        "labels is given as well; one is enough",
                    ));
                }
                (Some(labels), None) => ("labels", labels),
                (None, Some(labels)) => ("true_labels", labels),
                (None, None) => return Err(Error::invalid(under("labels"), "missing")),
            };
            let labels = match labels {
                Value::String(label) => vec![label.clone()],
                other => list(&under(name), other)?
                    .iter()
                    .enumerate()
                    .map(|(j, label)| Ok(string(&format!("{field}.{name}[{j}]"), label)?.to_owned()))
                    .collect::<Result<_>>()?,
            };
            Ok(Example { text: string(&under("text"), text)?.to_owned(), labels })
        })
        .collect()
}

fn chunking(value: &Value) -> Result<Chunking> {
    let map = object("chunking", value)?;
    known_fields("chunking", map, CHUNKING)?;
    let size = |name: &str, default: usize| match present(map, name) {
        Some(value) => count(&format!("chunking.{name}"), value),
        None => Ok(default),
    };
    let default = Chunking::default();
    Ok(Chunking {
        text_chars: size("text_chars", default.text_chars)?,
        overlap_chars: size("overlap_chars", default.overlap_chars)?,
        labels: size("labels", default.labels)?,
    })
}

fn known_fields(path: &str, map: &Map<String, Value>, allowed: &[&str]) -> Result<()> {
    match map.keys().find(|key| !allowed.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let name = quote(key);
            let field = if path.is_empty() { "request".to_owned() } else { path.to_owned() };
            Err(Error::invalid(field, format!("unknown field {name}; allowed are {}", allowed.join(", "))))
        }
    }
}

fn present<'v>(map: &'v Map<String, Value>, field: &str) -> Option<&'v Value> {
    map.get(field).filter(|value| !value.is_null())
}

fn needed<'v>(map: &'v Map<String, Value>, field: &str) -> Result<&'v Value> {
    present(map, field).ok_or_else(|| Error::invalid(field, "missing"))
}

fn flag(map: &Map<String, Value>, field: &str) -> Result<Option<bool>> {
    let value = present(map, field);
    value.map(|value| value.as_bool().ok_or_else(|| wrong(field, value, "a boolean"))).transpose()
}

fn string<'v>(field: &str, value: &'v Value) -> Result<&'v str> {
    value.as_str().ok_or_else(|| wrong(field, value, "a string"))
}

fn list<'v>(field: &str, value: &'v Value) -> Result<&'v [Value]> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(field, value, "a list"))
}

fn object<'v>(field: &str, value: &'v Value) -> Result<&'v Map<String, Value>> {
    value.as_object().ok_or_else(|| wrong(field, value, "a map"))
}

fn count(field: &str, value: &Value) -> Result<usize> {
    let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| wrong(field, value, "a whole number"))
}

fn wrong(field: &str, value: &Value, allowed: &str) -> Error {
    let found = match value {
        Value::Number(number) => number.to_string(),
        other => kind(other).to_owned(),
    };
    Error::invalid(field, format!("{found} found, {allowed} is allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(extra: Value) -> Result<ClassifyRequest> {
        let mut request = json!({"text": "t", "labels": ["a", "b"]});
        if let (Value::Object(request), Value::Object(extra)) = (&mut request, extra) {
            request.extend(extra);
        }
        ClassifyRequest::from_json(&request)
    }

    #[test]
    fn every_field_is_read() -> Result<()> {
        let request = parse(json!({
            "labels": {"a": ["b"]}, "label_separator": "/", "classification_type": " Single ", "multi_label": false,
            "threshold": 0.25, "prompt": "p",
            "examples": [{"text": "x", "labels": ["l", "m"]}, {"text": "y", "true_labels": "n"}],
            "truncate": true, "truncation": "text", "max_tokens": 77, "chunking": {"text_chars": 300},
            "allow_duplicate_labels": true, "allow_markers": null, "allow_empty_labels": true,
        }))?;
        assert_eq!(request.labels.names(), ["a/b"]);
        assert_eq!(
            (request.mode, request.threshold, request.max_tokens),
            (Mode::SingleLabel, 0.25, Some(77))
        );
        assert_eq!(request.examples[1], Example { text: "y".into(), labels: vec!["n".into()] });
        assert_eq!(request.truncation, Truncation::Text);
        assert_eq!(request.chunking, Some(Chunking { text_chars: 300, ..Chunking::default() }));
        let allowed =
            Strictness { allow_duplicate_labels: true, allow_markers: false, allow_empty_labels: true };
        assert_eq!(request.strictness, allowed);
        assert_eq!(parse(json!({}))?, ClassifyRequest::new("t", LabelSet::flat(["a", "b"])));
        Ok(())
    }

    #[test]
    fn wrong_fields_are_named() {
        for (extra, field) in [
            (json!({"lables": []}), "request"),
            (json!({"text": null}), "text"),
            (json!({"text": ["a"]}), "text"),
            (json!({"labels": []}), "labels"),
            (json!({"labels": {}}), "labels"),
            (json!({"labels": ["a", "b", "a"]}), "labels[2]"),
            (json!({"threshold": 1.0001}), "threshold"),
            (json!({"threshold": -1}), "threshold"),
            (json!({"threshold": [0.5]}), "threshold"),
            (json!({"classification_type": "ranking"}), "classification_type"),
            (json!({"classification_type": "single", "multi_label": true}), "multi_label"),
            (json!({"examples": [{"text": "x"}]}), "examples[0].labels"),
            (json!({"examples": [{"text": "x", "labels": [1]}]}), "examples[0].labels[0]"),
            (json!({"examples": [{"text": "x", "labels": [], "score": 1}]}), "examples[0]"),
            (json!({"truncation": "left"}), "truncation"),
            (json!({"truncate": false, "truncation": "right"}), "truncate"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"max_tokens": 1.5}), "max_tokens"),
            (json!({"chunking": {"text_chars": 10}}), "chunking.overlap_chars"),
            (json!({"chunking": {"labels": 0}}), "chunking.labels"),
            (json!({"chunking": true}), "chunking"),
        ] {
            match parse(extra.clone()) {
                Err(Error::InvalidRequest { field: found, .. }) => assert_eq!(found, field, "{extra}"),
                other => panic!("{extra}: {other:?}"),
            }
        }
        assert!(ClassifyRequest::from_json(&json!([])).is_err());
    }

    #[test]
    fn a_repeated_label_names_both_places() {
        let error = parse(json!({"labels": {"x": ["a", "b"], "y": "c", "x.a": "", "x ": ["d"]}}));
        assert!(error.is_ok(), "different names: {error:?}");
        let error = parse(json!({"labels": ["a", "b", "a"]})).map(drop).map_err(|e| e.to_string());
        assert!(error.is_err_and(|e| e.contains("labels[2]") && e.contains("labels[0]")));
        assert!(parse(json!({"labels": ["a", "a"], "allow_duplicate_labels": true})).is_ok());
        assert!(parse(json!({"labels": ["", "b"]})).is_ok());
    }

    #[test]
    fn nan_is_no_threshold() {
        let mut request = ClassifyRequest::new("", LabelSet::flat(["a"]));
        assert!(request.validate().is_ok());
        for bad in [f32::NAN, f32::INFINITY, -0.1, 1.1] {
            request.threshold = bad;
            assert!(request.validate().is_err());
        }
    }

    #[test]
    fn hostile_sizes_are_refused() {
        let window = json!({"chunking": {"text_chars": 1, "overlap_chars": 0}, "text": "x".repeat(5000)});
        for extra in [
            window,
            json!({"text": "x".repeat((4 << 20) + 1)}),
            json!({"prompt": "x".repeat(1 << 20)}),
            json!({"max_tokens": 1u64 << 40}),
            json!({"examples": vec![json!({"text": "", "labels": []}); 65]}),
        ] {
            assert!(matches!(parse(extra), Err(Error::TooLarge { .. })));
        }
    }
}
