//! What the formats of label classification have in common.

use dikast_core::answers::{Classification, ScoredLabel};
use dikast_core::request::limits::{MAX_LABELS, MAX_RENDERED_BYTES};
use dikast_core::request::{ClassifyRequest, Json, LabelSet, Mode, Truncation};

use super::failure::Failure;
use super::fields::{at_most, present, string, strings};
use super::json::{list, object};
use super::number::rounded;

/// Texts of one request.
pub(super) const MAX_TEXTS: usize = 256;

/// Texts with labels, and how their answer is written.
pub(crate) struct LabelCall {
    /// The model that the body names.
    pub(crate) model: Option<String>,
    /// One entry a text.
    pub(crate) requests: Vec<ClassifyRequest>,
    /// The answers, in the order of the requests, as this format's response.
    pub(crate) respond: Respond,
}

/// Writes answers.
pub(crate) type Respond = Box<dyn FnOnce(&[Classification], &Told) -> Json + Send>;

/// What a response says besides its answers.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// The served model's id.
    pub(crate) model: String,
    /// Digits after the point.
    pub(crate) decimals: u8,
    /// The request's id.
    pub(crate) request_id: String,
    /// Seconds since 1970.
    pub(crate) now: u64,
}

/// Texts from a string or a list of strings; whether it was a list.
pub(super) fn texts(field: &str, value: &Json) -> Result<(Vec<String>, bool), Failure> {
    match value {
        Json::String(text) => Ok((vec![text.clone()], false)),
        Json::Array(items) => {
            if items.is_empty() {
                return Err(Failure::invalid(field, "no texts found, at least one is needed"));
            }
            at_most(field, "texts", items.len(), MAX_TEXTS)?;
            Ok((strings(field, value)?, true))
        }
        other => Err(super::fields::wrong(field, other, "a string or a list of strings")),
    }
}

/// The optional `model`.
pub(super) fn model(body: &Json) -> Result<Option<String>, Failure> {
    present(body, "model").map(|model| Ok(string("model", model)?.to_owned())).transpose()
}

/// One request a text, all with the same labels.
pub(super) fn requests(
    texts: Vec<String>,
    labels: &[String],
    with: impl Fn(ClassifyRequest) -> ClassifyRequest,
) -> Result<Vec<ClassifyRequest>, Failure> {
    at_most("labels", "labels", labels.len(), MAX_LABELS)?;
    // Each text gets the labels again.
    let bytes = labels.iter().map(String::len).sum::<usize>().saturating_mul(texts.len());
    if bytes > MAX_RENDERED_BYTES {
        return Err(Failure::too_large("labels times texts", MAX_RENDERED_BYTES as u64));
    }
    let request = |text| with(ClassifyRequest::new(text, LabelSet::flat(labels.iter().cloned())));
    texts.into_iter().map(|text| checked(request(text))).collect()
}

/// A request that the core's checks passed.
pub(super) fn checked(request: ClassifyRequest) -> Result<ClassifyRequest, Failure> {
    request.validate()?;
    Ok(request)
}

/// `multi_label`.
pub(super) fn mode(multi: bool) -> Mode {
    if multi { Mode::MultiLabel } else { Mode::SingleLabel }
}

/// `truncate`.
pub(super) fn truncation(cut: bool) -> Truncation {
    if cut { Truncation::Text } else { Truncation::Refuse }
}

/// `[{label, score}]` in the given order.
pub(super) fn scored(scores: &[&ScoredLabel], decimals: u8) -> Json {
    list(scores.iter().map(|s| {
        object([("label", s.label.as_str().into()), ("score", rounded(f64::from(s.score), decimals))])
    }))
}

/// One list a text, or only the first one's.
pub(super) fn nested(batch: bool, mut lists: Vec<Json>) -> Json {
    if batch || lists.is_empty() { Json::Array(lists) } else { lists.swap_remove(0) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use dikast_core::answers::Receipt;

    /// The answer with these logits, as the core makes it.
    pub(in crate::wire) fn answer(request: &ClassifyRequest, logits: &[f32]) -> Classification {
        let sum: f32 = logits.iter().map(|l| l.exp()).sum();
        let score = |l: f32| match request.mode {
            Mode::SingleLabel => l.exp() / sum,
            Mode::MultiLabel => 1.0 / (1.0 + (-l).exp()),
        };
        let scores = request.labels.names().iter().zip(logits);
        Classification {
            scores: scores
                .map(|(label, l)| ScoredLabel { label: label.clone(), score: score(*l), logit: Some(*l) })
                .collect(),
            labels: request.labels.clone(),
            mode: request.mode,
            threshold: request.threshold,
            chunked: false,
            receipt: Receipt { tokens: 5, ..Receipt::default() },
        }
    }

    /// The response of a call whose texts all get these logits.
    pub(in crate::wire) fn respond(call: LabelCall, logits: &[f32]) -> String {
        let answers: Vec<_> = call.requests.iter().map(|r| answer(r, &logits[..r.labels.len()])).collect();
        let told = Told { model: "m".into(), decimals: 3, request_id: "r".into(), now: 9 };
        (call.respond)(&answers, &told).to_string()
    }

    #[test]
    fn labels_times_texts_are_limited() {
        let labels: Vec<String> = (0..4000).map(|i| format!("{i}{}", "x".repeat(4000))).collect();
        let error = requests(vec![String::new(); 5], &labels, |r| r).expect_err("too large");
        assert_eq!(error.kind, super::super::failure::Kind::TooLarge);
        assert!(texts("texts", &list(vec![Json::from("a"); MAX_TEXTS + 1])).is_err());
    }
}
