//! Probes, counters, models, facts.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use dikast_core::request::Json;

use super::context::Context;
use super::reply::{json, refuse, text};
use crate::app::App;
use crate::model::{Loaded, Status};
use crate::wire::failure::Failure;
use crate::wire::json::{count, list, object, push};
use crate::wire::listing;

/// The process is up.
pub(super) async fn livez() -> Response {
    json(StatusCode::OK, &object([("status", "ok".into())]))
}

/// It takes work; the body says where each model stands.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Response {
    let ready = app.is_ready();
    let models = app.models.slots().iter().map(|slot| (slot.id.clone(), slot.status().name().into()));
    let status = match (ready, app.is_draining()) {
        (true, _) => "ok",
        (false, true) => "draining",
        (false, false) => "not ready",
    };
    let body = object([("status", status.into()), ("models", Json::Object(models.collect()))]);
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = json(code, &body);
    if !ready {
        super::reply::set(&mut response, axum::http::header::RETRY_AFTER, "1");
    }
    response
}

/// Counters for Prometheus.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let models = app.models.slots().iter().map(|slot| {
        (slot.id.as_str(), slot.loaded().map_or(0, Loaded::depth), slot.status() == Status::Ready)
    });
    text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", app.metrics.text(models))
}

/// All models.
pub(super) async fn models(State(app): State<Arc<App>>) -> Response {
    let listed: Vec<_> = app.models.slots().iter().map(|slot| slot.listed()).collect();
    json(StatusCode::OK, &listing::all(&listed, app.since))
}

/// One model.
pub(super) async fn model(
    State(app): State<Arc<App>>,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Response {
    match app.models.by_name(&id) {
        Some(slot) => json(StatusCode::OK, &listing::one(&slot.listed(), app.since)),
        None => refuse(&context, &Failure::unknown_model(&id, &app.models.names())),
    }
}

/// What runs here and how it answers.
pub(super) async fn info(State(app): State<Arc<App>>) -> Response {
    let config = &app.config;
    let models = app.models.slots().iter().map(|slot| {
        let mut model = object([
            ("id", slot.id.as_str().into()),
            ("family", if slot.decides { "clef" } else { "gliclass" }.into()),
            ("status", slot.status().name().into()),
        ]);
        if let Some(loaded) = slot.loaded() {
            let first = &loaded.devices()[0];
            push(&mut model, "format", loaded.format().into());
            push(&mut model, "checkpoint_digest", loaded.digest().map_or(Json::Null, Json::from));
            push(&mut model, "backend", first.backend.as_str().into());
            push(&mut model, "device", first.device.as_str().into());
            push(&mut model, "build", first.build.as_str().into());
            let devices = loaded.devices().iter().zip(slot.devices()).map(|(facts, status)| {
                object([
                    ("backend", facts.backend.as_str().into()),
                    ("device", facts.device.as_str().into()),
                    ("status", status.name().into()),
                ])
            });
            push(&mut model, "devices", list(devices));
            push(&mut model, "max_tokens", count(loaded.max_tokens()));
        }
        model
    });
    let limits = object([
        ("body_bytes", count(config.body_bytes)),
        ("decompressed_bytes", count(config.plain_bytes)),
        ("batch_tokens", count(config.batch_tokens)),
        ("queue_tokens", count(config.queue_tokens)),
        ("queue_requests", count(config.queue_requests)),
    ]);
    let body = object([
        ("name", "dikast".into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("models", list(models)),
        ("confidence", config.confidence.name().into()),
        ("decimals", count(config.decimals)),
        ("max_wait_ms", Json::Float(config.max_wait.as_secs_f64() * 1e3)),
        ("default_labels", list(config.default_labels.iter().map(|l| l.as_str().into()))),
        ("limits", limits),
    ]);
    json(StatusCode::OK, &body)
}
