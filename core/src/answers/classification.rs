//! The answer to a classification request.

use crate::request::{LabelSet, Mode};
use serde_json::{Value, json};

/// A label with its probability.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredLabel {
    /// The label as the model saw it (dotted for hierarchies).
    pub label: String,
    /// Probability in `0..=1`: sigmoid (multi-label) or softmax over the request's labels (single-label).
    pub score: f32,
    /// The logit behind it. `None` when the request was split into several windows of text.
    pub logit: Option<f32>,
}

/// Where an answer came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// Model name.
    pub model: String,
    /// SHA-256 of the weights, hex; filled when asked for.
    pub checkpoint_digest: Option<String>,
    /// Backend and device, for example `cpu`.
    pub backend: String,
    /// Weight format, for example `BF16` or `FP8 W8A8`.
    pub quantization: String,
    /// Tokens read, over all windows.
    pub tokens: u64,
    /// Text tokens dropped; 0 unless truncation was asked for.
    pub dropped_text_tokens: u64,
    /// Indices of the labels that the model did not read whole, in order; empty unless cutting on the right was asked
    /// for. Their scores do not mean what their names say.
    pub cut_labels: Vec<usize>,
}

/// The answer to one [`crate::request::ClassifyRequest`].
#[derive(Debug, Clone, PartialEq)]
pub struct Classification {
    /// Every label with its score, in request order.
    pub scores: Vec<ScoredLabel>,
    /// The request's labels, for their shape.
    pub labels: LabelSet,
    /// The request's mode.
    pub mode: Mode,
    /// The request's threshold.
    pub threshold: f32,
    /// The request asked for windows of text and groups of labels.
    pub chunked: bool,
    /// Where the answer came from.
    pub receipt: Receipt,
}

impl Classification {
    /// The labels chosen, as the reference pipelines give them.
    ///
    /// Multi-label: those with `score >= threshold`, in request order, or best first when chunked; may be empty.
    /// Single-label: the best one, the first of equals.
    pub fn predictions(&self) -> Vec<&ScoredLabel> {
        match self.mode {
            Mode::SingleLabel => self.ranked(Some(1)),
            Mode::MultiLabel => {
                let scores = if self.chunked { self.ranked(None) } else { self.scores.iter().collect() };
                scores.into_iter().filter(|scored| scored.score >= self.threshold).collect()
            }
        }
    }

    /// Labels by falling score, equals in request order; the first `top_k` if given.
    pub fn ranked(&self, top_k: Option<usize>) -> Vec<&ScoredLabel> {
        let mut ranked: Vec<&ScoredLabel> = self.scores.iter().collect();
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        ranked.truncate(top_k.unwrap_or(usize::MAX));
        ranked
    }

    /// The names of the labels that the model did not read whole; see [`Receipt::cut_labels`].
    pub fn cut_labels(&self) -> Vec<&str> {
        let names = self.labels.names();
        self.receipt.cut_labels.iter().filter_map(|&i| names.get(i)).map(String::as_str).collect()
    }

    /// All scores in a JSON map shaped like the request's labels; of equal names the last one stays.
    pub fn tree(&self) -> Value {
        self.labels.shaped(&mut |i| self.scores.get(i).map_or(Value::Null, |scored| number(scored.score)))
    }

    /// The whole answer; the order of its fields is stable.
    pub fn to_json(&self) -> Value {
        let scored = |scored: &ScoredLabel| {
            let mut item = json!({"label": scored.label, "score": number(scored.score)});
            if let Some(logit) = scored.logit {
                item["logit"] = number(logit);
            }
            item
        };
        let short = |scored: &ScoredLabel| json!({"label": scored.label, "score": number(scored.score)});
        let receipt = &self.receipt;
        json!({
            "mode": self.mode.name(),
            "threshold": number(self.threshold),
            "predictions": self.predictions().into_iter().map(short).collect::<Vec<_>>(),
            "scores": self.scores.iter().map(scored).collect::<Vec<_>>(),
            "receipt": {
                "model": receipt.model,
                "checkpoint_digest": receipt.checkpoint_digest,
                "backend": receipt.backend,
                "quantization": receipt.quantization,
                "tokens": receipt.tokens,
                "dropped_text_tokens": receipt.dropped_text_tokens,
                "cut_labels": self.cut_labels(),
            },
        })
    }
}

/// The shortest decimal that reads back as the same f32, instead of the digits of its widened value.
fn number(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(mode: Mode, scores: &[f32]) -> Classification {
        let names = ["a.x", "b", "a.y"];
        let scored =
            |(&score, name): (&f32, &&str)| ScoredLabel { label: (*name).into(), score, logit: None };
        Classification {
            scores: scores.iter().zip(&names).map(scored).collect(),
            labels: LabelSet::flat(names),
            mode,
            threshold: 0.5,
            chunked: false,
            receipt: Receipt::default(),
        }
    }

    fn labels(scored: Vec<&ScoredLabel>) -> Vec<&str> {
        scored.into_iter().map(|scored| scored.label.as_str()).collect()
    }

    #[test]
    fn multi_label_keeps_the_threshold_itself_and_the_order() {
        let mut answer = answer(Mode::MultiLabel, &[0.5, 0.49, 0.9]);
        assert_eq!(labels(answer.predictions()), ["a.x", "a.y"]);
        answer.chunked = true;
        assert_eq!(labels(answer.predictions()), ["a.y", "a.x"]);
        assert_eq!(labels(answer.ranked(Some(9))), ["a.y", "a.x", "b"]);
        answer.threshold = 1.0;
        assert!(answer.predictions().is_empty());
    }

    #[test]
    fn single_label_takes_the_first_of_equals() {
        assert_eq!(labels(answer(Mode::SingleLabel, &[0.2, 0.4, 0.4]).predictions()), ["b"]);
    }

    #[test]
    fn json_is_stable_and_short() -> crate::Result<()> {
        let mut answer = answer(Mode::MultiLabel, &[0.1, 0.2, 0.7]);
        answer.scores[0].logit = Some(-2.5);
        let json = answer.to_json().to_string();
        let start = r#"{"mode":"multi-label","threshold":0.5,"predictions":[{"label":"a.y","score":0.7}],"scores":[{"label":"a.x","score":0.1,"logit":-2.5},"#;
        assert!(json.starts_with(start), "{json}");
        assert_eq!(answer.tree(), json!({"a.x": 0.1, "b": 0.2, "a.y": 0.7}));
        answer.labels = answer.labels.nested_by(".")?;
        assert_eq!(answer.tree(), json!({"a": {"x": 0.1, "y": 0.7}, "b": 0.2}));
        Ok(())
    }
}
