//! Answers and refusals as responses.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use dikast_core::request::Json;
use tracing::Span;

use super::context::{Context, Facts};
use super::receipt;
use crate::queue::Done;
use crate::wire::failure::{Failure, Kind};

/// An answer.
pub(super) struct Answered {
    pub(super) body: Json,
    pub(super) facts: Facts,
    /// Making its tokens, waiting, and running.
    pub(super) times: [Duration; 3],
    /// Where it comes from, if the caller asked.
    pub(super) receipt: Option<Json>,
    /// Making the response.
    pub(super) responding: Span,
}

impl Answered {
    pub(super) fn new(body: Json, facts: Facts, done: Done) -> Self {
        let times = [done.prepared, done.waited, done.ran];
        Self { body, facts, times, receipt: None, responding: done.responding }
    }
}

/// The response to a request.
pub(super) fn reply(context: &Context, outcome: Result<Answered, Failure>) -> Response {
    match outcome {
        Ok(answered) => {
            let mut response = json(StatusCode::OK, &answered.body);
            let milliseconds = |time: Duration| format!("{:.3}", time.as_secs_f64() * 1e3);
            for (name, time) in
                ["x-prepare-ms", "x-queue-ms", "x-inference-ms"].into_iter().zip(answered.times)
            {
                set(&mut response, HeaderName::from_static(name), &milliseconds(time));
            }
            if let Some(receipt) = answered.receipt {
                set(&mut response, HeaderName::from_static(receipt::HEADER), &receipt.to_string());
            }
            response.extensions_mut().insert(answered.facts);
            drop(answered.responding);
            response
        }
        Err(failure) => refuse(context, &failure),
    }
}

/// A refusal.
pub(super) fn refuse(context: &Context, failure: &Failure) -> Response {
    let status =
        StatusCode::from_u16(failure.status(context.dialect)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, &failure.body(context.dialect, &context.id));
    if let Some(time) = failure.retry_after {
        let seconds = (time.as_millis().div_ceil(1000)).max(1);
        set(&mut response, RETRY_AFTER, &seconds.to_string());
        let milliseconds = time.as_millis().max(1).to_string();
        set(&mut response, HeaderName::from_static("retry-after-ms"), &milliseconds);
    }
    match failure.kind {
        Kind::Unauthorized => set(&mut response, WWW_AUTHENTICATE, "Bearer"),
        // The rest of the body is not read.
        Kind::TooLarge | Kind::SlowBody => set(&mut response, axum::http::header::CONNECTION, "close"),
        _ => {}
    }
    let fault = (failure.kind == Kind::Internal).then(|| failure.message.clone());
    response.extensions_mut().insert(Facts { code: Some(failure.code), fault, ..Facts::default() });
    response
}

/// A JSON body.
pub(super) fn json(status: StatusCode, body: &Json) -> Response {
    text(status, "application/json", body.to_string())
}

/// A body of any type.
pub(super) fn text(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Sets a header; what no header may hold is left out.
pub(super) fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
