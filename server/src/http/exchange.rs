//! Around every request: its id, its key, its line in the log, its counters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tracing::{Instrument as _, Span};

use super::context::{Context, Facts};
use super::linger::{Lingering, Patience};
use super::reply::{refuse, set};
use crate::app::App;
use crate::log::Line;
use crate::trace::{self, Ended};
use crate::wire::dialect::Dialect;
use crate::wire::failure::Failure;

/// Paths that need no key: probes, counters, and what a browser asks first.
const OPEN: [&str; 10] = [
    "/livez",
    "/readyz",
    "/health",
    "/healthz",
    "/ping",
    "/metrics",
    "/gliclass/-/healthz",
    "/openapi.json",
    "/docs",
    "/favicon.ico",
];

/// Longest request id that is taken over.
const MAX_ID: usize = 128;

/// The middleware.
pub(super) async fn around(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let context = Context {
        id: own_id(request.headers()).unwrap_or_else(|| app.new_id()),
        dialect: Dialect::of(path),
        arrived: Instant::now(),
    };
    let open = OPEN.contains(&path) || (path == "/" && request.method() == Method::GET);
    let route = request.extensions().get::<MatchedPath>().map_or("unknown", |m| m.as_str()).to_owned();
    request.extensions_mut().insert(context.clone());
    // Probes would be most of what a collector gets.
    let span = if open {
        Span::none()
    } else {
        trace::request(request.method(), &route, &context.id, request.headers())
    };
    let mut record = Record { app, route, method: request.method().clone(), context, span, ended: false };
    let allowed = if open { Ok(()) } else { allowed(&record.app, request.headers()) };
    let request = lingering(&record.app, request);
    let mut response = match allowed {
        Ok(()) => next.run(request).instrument(record.span.clone()).await,
        Err(failure) => refuse(&record.context, &failure),
    };
    for name in ["x-request-id", "x-typesafe-request-id"] {
        set(&mut response, HeaderName::from_static(name), &record.context.id);
    }
    if record.app.is_draining() {
        // The next request has to go elsewhere.
        set(&mut response, CONNECTION, "close");
    }
    let facts = response.extensions_mut().remove::<Facts>().unwrap_or_default();
    record.end(response.status(), &facts);
    response
}

/// The caller's id for the request, if it is short and printable.
fn own_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("x-request-id")?.to_str().ok()?;
    let good = (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    good.then(|| id.to_owned())
}

/// Keys that a request presents, in any of the three headers.
fn presented(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let bearer = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    let bearer = bearer.map(|value| match value.split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key.trim_ascii(),
        _ => value,
    });
    let others = ["x-api-key", "api-subscription-key"].into_iter();
    bearer.into_iter().chain(others.filter_map(|name| headers.get(name)).map(|value| value.as_bytes()))
}

/// Whether the caller has a key, and the key requests left.
fn allowed(app: &App, headers: &HeaderMap) -> Result<(), Failure> {
    if app.keys.is_empty() {
        return Ok(());
    }
    let known = presented(headers).find_map(|key| app.keys.find(key));
    let known = known.ok_or_else(|| Failure::unauthorized(presented(headers).next().is_some()))?;
    known.admit().map_err(|wait| {
        app.metrics.limited();
        Failure::limited(wait)
    })
}

/// The request with a body that may be refused before it has arrived.
fn lingering(app: &App, request: Request) -> Request {
    let patience = Patience {
        bytes: (app.config.body_bytes as u64).saturating_mul(8),
        time: app.config.read_timeout.min(Duration::from_secs(5)),
    };
    let (parts, body) = request.into_parts();
    let body = Lingering::around(body, &parts.headers, patience);
    Request::from_parts(parts, body)
}

/// Counts and logs a request when it ends, also when the client goes away before.
struct Record {
    app: Arc<App>,
    route: String,
    method: Method,
    context: Context,
    span: Span,
    ended: bool,
}

impl Record {
    fn end(&mut self, status: StatusCode, facts: &Facts) {
        self.ended = true;
        self.write(status.as_str(), status.as_u16(), facts);
    }

    fn write(&self, label: &str, status: u16, facts: &Facts) {
        let took: Duration = self.context.arrived.elapsed();
        let model = facts.model.as_deref();
        let ended = Ended {
            status: self.ended.then_some(status),
            code: facts.code,
            model,
            tokens: facts.tokens,
            questions: facts.questions,
        };
        ended.record(&self.span);
        self.app.metrics.answered(&self.route, model.unwrap_or(""), label, took);
        self.app.log.request(&Line {
            request_id: &self.context.id,
            method: self.method.as_str(),
            route: &self.route,
            model,
            status,
            code: facts.code,
            tokens: facts.tokens,
            questions: facts.questions,
            milliseconds: took.as_secs_f64() * 1e3,
            fault: facts.fault.as_deref(),
        });
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.ended {
            // The status that proxies log for a client that went away.
            self.write("cancelled", 499, &Facts { code: Some("cancelled"), ..Facts::default() });
        }
    }
}
