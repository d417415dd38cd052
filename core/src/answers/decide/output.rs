//! Answers as the System One response.

use super::{Answer, DecideReceipt, Decision};
use crate::request::Json;

/// How a decision is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecideOutput {
    /// Digits after the point of every number of the answers, halves to even on the exact binary value as Python's
    /// `round`; `None` writes every digit. 4 is what the reference writes.
    pub decimals: Option<u8>,
    /// Adds `x_receipt`.
    pub receipt: bool,
}

/// 6 digits, no receipt.
impl Default for DecideOutput {
    fn default() -> Self {
        Self { decimals: Some(6), receipt: false }
    }
}

impl Decision {
    /// The System One response: `{model, answers, usage}`, answers, options and keys in request order; then
    /// `x_truncated`, `x_state_tokens` and `x_state_tokens_used` if the request allowed to cut the state.
    pub fn to_json(&self, output: &DecideOutput) -> Json {
        let answers = self.answers.iter().map(|(id, answer)| (id.clone(), answer.to_json(output.decimals)));
        let mut entries = vec![
            entry("model", self.receipt.model.as_str()),
            entry("answers", Json::Object(answers.collect())),
            entry(
                "usage",
                object([entry("input_tokens", count(self.receipt.tokens)), entry("output_tokens", 0_i64)]),
            ),
        ];
        if let Some(state) = self.truncation {
            entries.push(entry("x_truncated", state.used < state.found));
            entries.push(entry("x_state_tokens", count(state.found)));
            entries.push(entry("x_state_tokens_used", count(state.used)));
        }
        if output.receipt {
            entries.push(entry("x_receipt", self.receipt.to_json()));
        }
        Json::Object(entries)
    }
}

impl Answer {
    /// The answer object of one question.
    pub fn to_json(&self, decimals: Option<u8>) -> Json {
        let number = |value: f64| Json::Float(rounded(value, decimals));
        match self {
            Self::Noul { probability } => {
                object([entry("type", "noul"), entry("noul", number(*probability))])
            }
            Self::Choice { choice, confidence, probabilities } => {
                let chosen = probabilities.get(*choice).map_or("", |(id, _)| id);
                let all = probabilities.iter().map(|(id, p)| (id.clone(), number(*p)));
                object([
                    entry("type", "choice"),
                    entry("choice", chosen),
                    entry("confidence", number(*confidence)),
                    entry("probabilities", Json::Object(all.collect())),
                ])
            }
            Self::Score { score, confidence, legend, probabilities } => {
                let legend = legend.iter().cloned().enumerate().map(|(i, level)| (i.to_string(), level));
                let all = probabilities.iter().enumerate().map(|(i, p)| (i.to_string(), number(*p)));
                object([
                    entry("type", "score"),
                    entry("score", number(*score)),
                    entry("confidence", number(*confidence)),
                    entry("legend", Json::Object(legend.collect())),
                    entry("probabilities", Json::Object(all.collect())),
                ])
            }
        }
    }
}

impl DecideReceipt {
    /// Every field, in a stable order.
    pub fn to_json(&self) -> Json {
        let optional = |text: &Option<String>| text.clone().map_or(Json::Null, Json::String);
        object([
            entry("model", self.model.as_str()),
            entry("checkpoint_digest", optional(&self.checkpoint_digest)),
            entry("backend", self.backend.as_str()),
            entry("device", optional(&self.device)),
            entry("quantization", self.quantization.as_str()),
            entry("tokens", count(self.tokens)),
            entry("dropped_state_tokens", count(self.dropped_state_tokens)),
        ])
    }
}

fn entry(key: &str, value: impl Into<Json>) -> (String, Json) {
    (key.to_owned(), value.into())
}

fn object(entries: impl IntoIterator<Item = (String, Json)>) -> Json {
    Json::Object(entries.into_iter().collect())
}

fn count(value: u64) -> Json {
    Json::from(i64::try_from(value).unwrap_or(i64::MAX))
}

/// The decimal nearest to the exact binary value, halves to even, read back.
fn rounded(value: f64, decimals: Option<u8>) -> f64 {
    match decimals {
        None => value,
        Some(digits) => format!("{value:.*}", usize::from(digits)).parse().unwrap_or(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_like_python() {
        for (value, digits, expected) in [
            (0.125, 2, 0.12),
            (0.375, 2, 0.38),
            (2.5, 0, 2.0),
            (0.000_05, 4, 0.0001),
            (0.866_985_92, 4, 0.867),
            (1.0, 6, 1.0),
            (2.675, 2, 2.67),
        ] {
            assert_eq!(rounded(value, Some(digits)), expected, "{value}");
        }
        assert_eq!(rounded(1.0 / 3.0, None), 1.0 / 3.0);
    }

    #[test]
    fn the_receipt_is_an_extension() {
        let receipt =
            DecideReceipt { model: "m".into(), backend: "cpu".into(), tokens: 7, ..DecideReceipt::default() };
        let decision = Decision { answers: Vec::new(), truncation: None, receipt };
        let text = decision.to_json(&DecideOutput { decimals: None, receipt: true }).to_string();
        let expected = r#"{"model":"m","answers":{},"usage":{"input_tokens":7,"output_tokens":0},"x_receipt":{"model":"m","checkpoint_digest":null,"backend":"cpu","device":null,"quantization":"","tokens":7,"dropped_state_tokens":0}}"#;
        assert_eq!(text, expected);
    }
}
