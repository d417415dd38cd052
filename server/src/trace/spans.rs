//! The spans of a request. Of what callers sent they hold the request's id and nothing else.
//!
//! ```text
//! POST /v1/systemone ─┬─ receive     the body, decompressed and parsed
//!                     ├─ tokenize    checks, pictures, tokens, and the wait for a thread that makes them
//!                     ├─ queue       until a device takes the first of it
//!                     ├─ inference   until the device has done the last of it
//!                     └─ respond     from logits to the body
//! ```

use axum::http::{HeaderMap, Method};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::field::Empty;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// A request, from its head to its response. It belongs to the caller's trace if `traceparent` names one.
pub(crate) fn request(method: &Method, route: &str, id: &str, headers: &HeaderMap) -> Span {
    // Methods that no route has may be any word.
    let known = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD];
    let method = if known.contains(method) { method.as_str() } else { "_OTHER" };
    let span = info_span!(
        parent: None,
        "request",
        otel.name = %format_args!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        error.type = Empty,
        dikast.request_id = id,
        dikast.model = Empty,
        dikast.tokens = Empty,
        dikast.questions = Empty,
    );
    if !span.is_disabled() {
        let caller = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        // It is new, and who else listens has no use for a context of OpenTelemetry.
        let _ = span.set_parent(caller);
    }
    span
}

/// How a request ended.
pub(crate) struct Ended<'e> {
    /// `None` if its client left before.
    pub(crate) status: Option<u16>,
    /// Why it was refused.
    pub(crate) code: Option<&'e str>,
    pub(crate) model: Option<&'e str>,
    pub(crate) tokens: u64,
    pub(crate) questions: u64,
}

impl Ended<'_> {
    /// Says so on its span.
    pub(crate) fn record(&self, request: &Span) {
        if request.is_disabled() {
            return;
        }
        if let Some(status) = self.status {
            request.record("http.response.status_code", i64::from(status));
            // What a caller did wrong is no error of the server.
            if status >= 500 {
                request.record("otel.status_code", "ERROR");
            }
        }
        if let Some(code) = self.code {
            request.record("error.type", code);
        }
        if let Some(model) = self.model {
            request.record("dikast.model", model);
            request.record("dikast.tokens", number(self.tokens));
            request.record("dikast.questions", number(self.questions));
        }
    }
}

/// Reading a body.
pub(crate) fn receive() -> Span {
    info_span!("receive")
}

/// Making a request's tokens.
pub(crate) fn prepare() -> Span {
    info_span!("tokenize")
}

/// Where a request stands after its tokens are made: `queue`, `inference`, `respond`, one after the other. Dropped, it ends
/// where it is.
pub(crate) struct Stages {
    request: Span,
    now: Span,
}

impl Stages {
    /// It waits for a device.
    pub(crate) fn queued(request: Span) -> Self {
        let now = info_span!(parent: &request, "queue");
        Self { request, now }
    }

    /// A device took the first of it, in a batch of so many requests and tokens.
    pub(crate) fn started(&mut self, requests: usize, tokens: usize) {
        self.now = info_span!(
            parent: &self.request,
            "inference",
            dikast.batch.requests = number(requests),
            dikast.batch.tokens = number(tokens),
            dikast.batches = Empty,
            dikast.device = Empty,
        );
    }

    /// The last of so many batches was done on a device. What is left is the answer: its span ends when it is dropped.
    pub(crate) fn done(self, batches: usize, device: usize) -> Span {
        self.now.record("dikast.batches", number(batches)).record("dikast.device", number(device));
        info_span!(parent: &self.request, "respond")
    }
}

fn number(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}
