//! The flags of `classify` as the part of a request that every text shares.

use dikast_core::request::ClassifyRequest;
use serde_json::{Map, Value, json};

use crate::args::{ClassifyArgs, Truncate};
use crate::classify::{examples, labels};
use crate::exit::{Failure, Result};

/// Request fields that a batch row may set besides its text and labels; they win over the flags.
pub(crate) const ROW_FIELDS: [&str; 12] = [
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
];

/// Two spellings of one thing: a row's spelling replaces the other one of the flags.
const SPELLINGS: [[&str; 2]; 2] = [["multi_label", "classification_type"], ["truncation", "truncate"]];

/// A request without its text, in JSON form: flags and rows are checked by the same parser.
#[derive(Debug, Clone, Default)]
pub(crate) struct Template(Map<String, Value>);

impl Template {
    /// The template that the flags describe; it has labels when `--labels` was given.
    pub(crate) fn from_args(args: &ClassifyArgs) -> Result<Self> {
        let mut fields = Map::new();
        if !args.labels.is_empty() {
            fields.insert("labels".into(), labels::from_args(&args.labels)?);
        }
        fields.insert("multi_label".into(), args.multi_label.into());
        if args.multi_label {
            fields.insert("threshold".into(), json!(args.threshold));
        }
        if let Some(prompt) = &args.prompt {
            fields.insert("prompt".into(), prompt.as_str().into());
        }
        if let Some(examples) = &args.examples {
            fields.insert("examples".into(), examples::from_arg(examples)?);
        }
        let truncation = match args.truncate {
            Truncate::Refuse => "refuse",
            Truncate::Text => "text",
            Truncate::Right => "right",
        };
        fields.insert("truncation".into(), truncation.into());
        if let Some(limit) = args.max_tokens {
            fields.insert("max_tokens".into(), limit.get().into());
        }
        if args.chunk.chunk {
            let chunk = &args.chunk;
            if chunk.chunk_overlap >= chunk.chunk_chars {
                return Err(Failure::usage("--chunk-overlap must be less than --chunk-chars"));
            }
            if chunk.chunk_labels == 0 {
                return Err(Failure::usage("--chunk-labels must be at least 1"));
            }
            let chunking = json!({
                "text_chars": chunk.chunk_chars,
                "overlap_chars": chunk.chunk_overlap,
                "labels": chunk.chunk_labels,
            });
            fields.insert("chunking".into(), chunking);
        }
        fields.insert("allow_duplicate_labels".into(), args.allow_duplicate_labels.into());
        fields.insert("allow_markers".into(), args.allow_markers.into());
        Ok(Self(fields))
    }

    /// The request for a text.
    pub(crate) fn request(&self, text: String) -> dikast_core::Result<ClassifyRequest> {
        self.request_with(text, Map::new())
    }

    /// The request for a text, with fields of its own.
    pub(crate) fn request_with(
        &self,
        text: String,
        own: Map<String, Value>,
    ) -> dikast_core::Result<ClassifyRequest> {
        let mut fields = self.0.clone();
        for spelling in SPELLINGS {
            if spelling.iter().any(|name| own.contains_key(*name)) {
                fields.retain(|name, _| !spelling.contains(&name.as_str()));
            }
        }
        fields.extend(own);
        fields.insert("text".into(), text.into());
        ClassifyRequest::from_json(&Value::Object(fields))
    }

    /// A template for tests.
    #[cfg(test)]
    pub(crate) fn for_tests(fields: &Value) -> Self {
        Self(fields.as_object().cloned().unwrap_or_default())
    }
}
