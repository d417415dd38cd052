//! The fields of a classification.

use dikast_core::answers::Classification;
use serde::Serialize;
use serde_json::Value;

use super::{Form, Labels};
use crate::classify::{AnswerLabel, ranking};

/// The fields of a JSONL record.
#[derive(Serialize)]
pub(in crate::batch) struct Fields<'a> {
    label: Option<String>,
    score: Option<f32>,
    labels: Vec<AnswerLabel>,
    tokens: u64,
    dropped_text_tokens: u64,
    cut_labels: Vec<&'a str>,
}

impl Form for Labels {
    type Answer = Classification;
    type Fields<'a> = Fields<'a>;

    const MARK: &'static str = "labels";

    fn fields<'a>(&'a self, classification: &'a Classification) -> Fields<'a> {
        let labels = ranking(classification, self.top_k);
        let best = labels.iter().find(|l| l.chosen);
        Fields {
            label: best.map(|l| l.label.clone()),
            score: best.map(|l| l.score),
            tokens: classification.receipt.tokens,
            dropped_text_tokens: classification.receipt.dropped_text_tokens,
            cut_labels: classification.cut_labels(),
            labels,
        }
    }

    fn cells(&self, classification: &Classification) -> Vec<String> {
        let labels = ranking(classification, self.top_k);
        let best = labels.iter().find(|l| l.chosen);
        let chosen: Vec<&str> = labels.iter().filter(|l| l.chosen).map(|l| l.label.as_str()).collect();
        vec![
            best.map_or_else(String::new, |l| l.label.clone()),
            best.map_or_else(String::new, |l| l.score.to_string()),
            Value::from(chosen).to_string(),
            serde_json::to_string(&labels).unwrap_or_default(),
            String::new(),
            String::new(),
            classification.receipt.dropped_text_tokens.to_string(),
            Value::from(classification.cut_labels()).to_string(),
        ]
    }
}
