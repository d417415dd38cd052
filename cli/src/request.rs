//! The flags of `classify` as the part of a request that every text shares.

mod windows;

use dikast_core::request::ClassifyRequest;
use serde_json::{Map, Value, json};

use crate::args::{ClassifyArgs, Truncate};
use crate::classify::{examples, labels};
use crate::exit::{Failure, Result};
use crate::terminal;

pub(crate) use windows::fit;

/// How the windows of a long text were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    /// By the flags or the row, or there are none.
    Given,
    /// By a guess that may be made smaller: see [`fit`].
    Fitted {
        /// The overlap was given and stays.
        overlap_given: bool,
    },
}

/// A request as it was asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// The request.
    pub(crate) request: ClassifyRequest,
    /// Where its windows come from.
    pub(crate) window: Window,
}

/// Request fields that a batch row may set besides its text and labels; they win over the flags.
pub(crate) const ROW_FIELDS: [&str; 13] = [
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
    "allow_empty_labels",
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
            fields.insert("chunking".into(), chunking(args)?);
        }
        fields.insert("allow_duplicate_labels".into(), args.allow_duplicate_labels.into());
        fields.insert("allow_empty_labels".into(), args.allow_empty_labels.into());
        fields.insert("allow_markers".into(), args.allow_markers.into());
        Ok(Self(fields))
    }

    /// Warns when the flags leave no choice: a lone label takes all of the probability.
    pub(crate) fn warn_of_lone_label(&self) {
        let lone = self.0.get("labels").and_then(Value::as_array).is_some_and(|labels| labels.len() == 1);
        if lone && self.0.get("multi_label") == Some(&Value::Bool(false)) {
            terminal::warn("a single label always gets 100 %; --multi-label judges it on its own");
        }
    }

    /// The fields that the flags set.
    pub(crate) fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The question about a text.
    pub(crate) fn question(&self, text: String) -> dikast_core::Result<Question> {
        self.question_with(text, Map::new())
    }

    /// The question about a text, with fields of its own.
    pub(crate) fn question_with(
        &self,
        text: String,
        own: Map<String, Value>,
    ) -> dikast_core::Result<Question> {
        let mut fields = self.0.clone();
        for spelling in SPELLINGS {
            if spelling.iter().any(|name| own.contains_key(*name)) {
                fields.retain(|name, _| !spelling.contains(&name.as_str()));
            }
        }
        fields.extend(own);
        fields.insert("text".into(), text.into());
        let window = windows::complete(&mut fields);
        Ok(Question { request: ClassifyRequest::from_json(&Value::Object(fields))?, window })
    }

    /// A template for tests.
    #[cfg(test)]
    pub(crate) fn for_tests(fields: &Value) -> Self {
        Self(fields.as_object().cloned().unwrap_or_default())
    }
}

/// The chunking that the flags describe. What they leave open is filled in for each text.
fn chunking(args: &ClassifyArgs) -> Result<Value> {
    let chunk = &args.chunk;
    if chunk.chunk_labels == 0 {
        return Err(Failure::usage("--chunk-labels must be at least 1"));
    }
    let mut fields = Map::new();
    fields.insert("labels".into(), chunk.chunk_labels.into());
    if let Some(chars) = chunk.chunk_chars {
        fields.insert("text_chars".into(), chars.into());
        fields.insert("overlap_chars".into(), windows::overlap(chars).into());
    }
    if let Some(overlap) = chunk.chunk_overlap {
        let guess = windows::first_guess(args.max_tokens.map(|n| n.get()));
        if overlap >= chunk.chunk_chars.unwrap_or(guess) {
            let message = match chunk.chunk_chars {
                Some(_) => "--chunk-overlap must be less than --chunk-chars".to_owned(),
                None => format!("--chunk-overlap must be less than the {guess} characters of a window"),
            };
            return Err(Failure::usage(message));
        }
        fields.insert("overlap_chars".into(), overlap.into());
    }
    if chunk.chunk_chars == Some(0) {
        return Err(Failure::usage("--chunk-chars must be at least 1"));
    }
    Ok(Value::Object(fields))
}
