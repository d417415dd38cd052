//! What a caller is told of where an answer comes from, if it asks.

use axum::http::HeaderMap;
use dikast_core::answers::{Classification, DecideReceipt};
use dikast_core::request::Json;

use crate::model::Facts;
use crate::wire::json::{count, list, object, push};

/// The header by which callers ask, and in which they get it.
pub(super) const HEADER: &str = "x-dikast-receipt";

/// Whether a caller asks.
pub(super) fn wanted(headers: &HeaderMap) -> bool {
    headers.get(HEADER).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

/// Of typed questions.
pub(super) fn of_decision(receipt: &DecideReceipt, device: &Facts) -> Json {
    let mut json = receipt.to_json();
    push(&mut json, "build", device.build.as_str().into());
    json
}

/// Of labels, over all texts of a request.
pub(super) fn of_labels(answers: &[Classification], device: &Facts) -> Json {
    let Some(first) = answers.first().map(|answer| &answer.receipt) else { return object([]) };
    let sum = |of: fn(&Classification) -> u64| count(answers.iter().map(of).sum::<u64>());
    let cut = answers.iter().map(|a| list(a.receipt.cut_labels.iter().map(|&i| count(i))));
    object([
        ("model", first.model.as_str().into()),
        ("checkpoint_digest", first.checkpoint_digest.clone().map_or(Json::Null, Json::from)),
        ("backend", first.backend.as_str().into()),
        ("device", device.device.as_str().into()),
        ("quantization", first.quantization.as_str().into()),
        ("tokens", sum(|a| a.receipt.tokens)),
        ("dropped_text_tokens", sum(|a| a.receipt.dropped_text_tokens)),
        ("cut_labels", list(cut)),
        ("build", device.build.as_str().into()),
    ])
}
