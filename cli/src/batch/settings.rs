//! Everything that changes an answer or its record, by the name of its flag: what a resumed run must have in common
//! with the run before.

use dikast_core::checkpoint::{Digest, ModelFiles};
use dikast_core::request::Confidence;
use serde_json::{Map, Value, json};

use super::files::Files;
use super::writer::{Decisions, Encoder, Labels, OutputFormat};
use crate::args::{ClassifyArgs, DecideArgs, InputFormat};
use crate::request::Template;

/// A longer value is kept as its digest.
const LONGEST: usize = 400;
/// Pieces of a model file that its digest covers, and their size. Weights that differ differ everywhere, and a digest
/// of all of them would take longer than many runs.
const PIECES: usize = 64;
const PIECE_BYTES: usize = 16 << 10;

/// The settings of a run. The backend is none of them: backends agree to rounding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Settings(Map<String, Value>);

impl Settings {
    /// What every run has: this program and its model.
    fn new(model: &ModelFiles) -> Self {
        let mut all = Map::new();
        all.insert("version of dikast".into(), env!("CARGO_PKG_VERSION").into());
        all.insert("--model".into(), format!("{} ({})", model.name(), digest(model)).into());
        Self(all)
    }

    fn extend<N: Into<String>>(&mut self, flags: impl IntoIterator<Item = (N, Value)>) {
        self.0.extend(flags.into_iter().map(|(flag, value)| (flag.into(), short(value))));
    }

    /// The settings of a run of `classify`.
    pub(super) fn of_classify(
        args: &ClassifyArgs,
        template: &Template,
        files: &Files,
        encoder: &Encoder<Labels>,
        model: &ModelFiles,
    ) -> Self {
        let batch = &args.batch;
        let mut all = Self::new(model);
        all.extend(template.fields().iter().map(|(field, value)| {
            let flag = match field.as_str() {
                "truncation" => "--truncate".to_owned(),
                "chunking" => "--chunk".to_owned(),
                other => format!("--{}", other.replace('_', "-")),
            };
            (flag, value.clone())
        }));
        let format = match encoder.format {
            OutputFormat::Jsonl => "jsonl",
            OutputFormat::Csv => "csv",
        };
        let input_format = match files.input_format() {
            InputFormat::Jsonl => "jsonl",
            InputFormat::Csv => "csv",
        };
        all.extend([
            ("--allow-empty", json!(args.allow_empty)),
            ("--top-k", json!(encoder.form.top_k)),
            ("--format", json!(format)),
            ("--input-format", json!(input_format)),
            ("--text-field", json!(batch.text_field)),
            ("--labels-field", json!(batch.labels_field)),
            ("--ignore-field", json!(batch.ignore_field)),
            ("--id-field", json!(batch.id_field)),
            ("--keep", json!(encoder.keep)),
            ("--delimiter", json!([files.input_delimiter(), encoder.delimiter].map(char::from))),
        ]);
        all
    }

    /// The settings of a run of `decide`, whose flags ask `questions` (JSON).
    pub(super) fn of_decide(
        args: &DecideArgs,
        questions: &str,
        encoder: &Encoder<Decisions>,
        model: &ModelFiles,
    ) -> Self {
        let mut all = Self::new(model);
        all.extend([
            ("the questions of the flags", json!(questions)),
            ("--truncate", json!(args.truncate.name())),
            ("--max-tokens", json!(args.max_tokens)),
            ("--special-tokens", json!(args.special_tokens.name())),
            ("--confidence", json!(Confidence::from(args.confidence).name())),
            ("--decimals", json!(encoder.form.output.decimals)),
            ("--receipt", json!(encoder.form.output.receipt)),
            ("--id-field", json!(args.batch.id_field)),
            ("--keep", json!(encoder.keep)),
        ]);
        all
    }

    /// Settings as they were stored.
    pub(super) fn from_json(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    /// The settings as they are stored.
    pub(super) fn json(&self) -> &Map<String, Value> {
        &self.0
    }

    /// What differs, in words.
    pub(super) fn differences(&self, now: &Self) -> Vec<String> {
        let new = now.0.keys().filter(|key| !self.0.contains_key(*key));
        self.0
            .keys()
            .chain(new)
            .filter(|key| self.0.get(*key) != now.0.get(*key))
            .map(|key| format!("{key} ({} then, {} now)", shown(self.0.get(key)), shown(now.0.get(key))))
            .collect()
    }
}

/// A value for the eyes.
fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "not given".to_owned(),
        Some(Value::String(text)) => crate::terminal::elide(text, 80).into_owned(),
        Some(other) => crate::terminal::elide(&other.to_string(), 80).into_owned(),
    }
}

/// The value, or its digest if it is long.
fn short(value: Value) -> Value {
    let text = value.to_string();
    if text.len() <= LONGEST { value } else { format!("SHA-256 {}", Digest::of(text.as_bytes())).into() }
}

/// A digest of names, lengths and samples of a model's files.
fn digest(files: &ModelFiles) -> Digest {
    let mut sample = Vec::new();
    for name in files.names() {
        let Some(blob) = files.get(name) else { continue };
        let bytes = blob.bytes();
        sample.extend_from_slice(format!("{name}\0{}\0", bytes.len()).as_bytes());
        let step = bytes.len().div_ceil(PIECES).max(PIECE_BYTES);
        for piece in bytes.chunks(step) {
            sample.extend_from_slice(&piece[..piece.len().min(PIECE_BYTES)]);
        }
        // Pieces stand at the start of their steps: the end of the file is one more.
        sample.extend_from_slice(&bytes[bytes.len().saturating_sub(PIECE_BYTES)..]);
        // One file's samples are in memory at a time.
        sample = Digest::of(&sample).0.to_vec();
    }
    Digest::of(&sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dikast_core::checkpoint::Blob;

    fn settings(fields: &Value) -> Settings {
        Settings(fields.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn differences_are_named_with_both_values() {
        let then = settings(&json!({"--labels": ["a", "b"], "--prompt": "p", "--format": "csv"}));
        let now = settings(&json!({"--labels": ["a", "c"], "--format": "csv", "--top-k": 3}));
        let differences = then.differences(&now).join(", ");
        let expected = "--labels ([\"a\",\"b\"] then, [\"a\",\"c\"] now), --prompt (p then, not given now), \
                        --top-k (not given then, 3 now)";
        assert_eq!(differences, expected);
        assert!(then.differences(&then).is_empty());
    }

    #[test]
    fn long_values_become_digests_that_still_differ() {
        let list = |n: usize| short(json!(vec!["label"; n]));
        assert!(list(1).is_array());
        assert!(list(100).as_str().unwrap().starts_with("SHA-256 "));
        assert_ne!(list(100), list(101));
    }

    #[test]
    fn another_weight_file_is_another_model() {
        let files =
            |bytes: Vec<u8>| ModelFiles::from_memory("m", [("w".to_owned(), Blob::Owned(bytes.into()))]);
        let one = vec![7; 3 << 20];
        let mut other = one.clone();
        other[2 << 20..].fill(8);
        assert_ne!(digest(&files(one.clone())), digest(&files(other)));
        assert_ne!(digest(&files(one.clone())), digest(&files(one[1..].to_vec())));
        assert_eq!(digest(&files(one.clone())), digest(&files(one)));
        assert_ne!(digest(&files(Vec::new())), digest(&files(vec![0])));
    }
}
