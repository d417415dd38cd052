//! The answer as programs see it. Documented and stable: fields are added, never renamed.

use dikast_core::answers::{Classification, ScoredLabel};
use dikast_core::request::Mode;
use serde::Serialize;
use serde_json::Value;

/// One answer: the JSON of `--format json` and `jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Answer {
    /// Model name.
    pub(crate) model: String,
    /// Backend and device.
    pub(crate) backend: String,
    /// `single-label` or `multi-label`.
    pub(crate) mode: &'static str,
    /// Labels, best first.
    pub(crate) labels: Vec<AnswerLabel>,
    /// `--hierarchy tree`: the scores in the shape of the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tree: Option<Value>,
    /// Tokens read.
    pub(crate) tokens: u64,
    /// Tokens of the text that were not read.
    pub(crate) dropped_text_tokens: u64,
    /// Labels that were not read whole, in request order.
    pub(crate) cut_labels: Vec<String>,
}

/// A label of an [`Answer`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct AnswerLabel {
    /// The label; dotted for hierarchies.
    pub(crate) label: String,
    /// Probability.
    pub(crate) score: f32,
    /// The logit behind it; null when the text was read in several windows.
    pub(crate) logit: Option<f32>,
    /// Whether the label is part of the answer: the best one, or in multi-label mode all over the threshold.
    pub(crate) chosen: bool,
}

impl Answer {
    /// The answer with the `top_k` best labels.
    pub(crate) fn new(classification: &Classification, top_k: Option<usize>, tree: Option<Value>) -> Self {
        let receipt = &classification.receipt;
        Self {
            model: receipt.model.clone(),
            backend: receipt.backend.clone(),
            mode: classification.mode.name(),
            labels: ranking(classification, top_k),
            tree,
            tokens: receipt.tokens,
            dropped_text_tokens: receipt.dropped_text_tokens,
            cut_labels: classification.cut_labels().into_iter().map(str::to_owned).collect(),
        }
    }
}

/// The `top_k` best labels (all without a limit), best first; equal scores stay in request order.
pub(crate) fn ranking(classification: &Classification, top_k: Option<usize>) -> Vec<AnswerLabel> {
    let single = classification.mode == Mode::SingleLabel;
    let ranked = classification.ranked(top_k).into_iter().enumerate();
    let label = |(place, scored): (usize, &ScoredLabel)| AnswerLabel {
        label: scored.label.clone(),
        score: scored.score,
        logit: scored.logit,
        chosen: if single { place == 0 } else { scored.score >= classification.threshold },
    };
    ranked.map(label).collect()
}

#[cfg(test)]
mod tests {
    use dikast_core::answers::Receipt;
    use dikast_core::request::LabelSet;

    use super::*;

    fn classification(mode: Mode, scores: &[f32]) -> Classification {
        let scored =
            |(i, score): (usize, &f32)| ScoredLabel { label: format!("l{i}"), score: *score, logit: None };
        Classification {
            scores: scores.iter().enumerate().map(scored).collect(),
            labels: LabelSet::flat(["l0", "l1", "l2"]),
            mode,
            threshold: 0.5,
            chunked: false,
            receipt: Receipt::default(),
        }
    }

    fn chosen(labels: &[AnswerLabel]) -> Vec<(&str, bool)> {
        labels.iter().map(|l| (l.label.as_str(), l.chosen)).collect()
    }

    #[test]
    fn single_label_chooses_the_first_maximum() {
        let labels = ranking(&classification(Mode::SingleLabel, &[0.2, 0.4, 0.4]), None);
        assert_eq!(chosen(&labels), [("l1", true), ("l2", false), ("l0", false)]);
    }

    #[test]
    fn multi_label_chooses_by_threshold() {
        let c = classification(Mode::MultiLabel, &[0.5, 0.49, 0.9]);
        assert_eq!(chosen(&ranking(&c, None)), [("l2", true), ("l0", true), ("l1", false)]);
        assert_eq!(chosen(&ranking(&c, Some(1))), [("l2", true)]);
    }

    #[test]
    fn numbers_are_written_as_the_f32_they_are() {
        let answer = Answer::new(&classification(Mode::MultiLabel, &[0.1]), None, None);
        let text = serde_json::to_string(&answer).unwrap();
        assert!(text.contains(r#""score":0.1,"logit":null,"chosen":false"#), "{text}");
        assert!(!text.contains("tree"));
    }
}
