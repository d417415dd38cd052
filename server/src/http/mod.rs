//! Routes and what surrounds every request.

mod answer;
mod body;
mod context;
mod cors;
mod deadline;
mod decide;
mod decompress;
mod exchange;
mod labels;
mod linger;
mod multipart;
mod ops;
mod pages;
mod receipt;
mod reply;
mod submit;
mod tokenize;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use crate::app::App;
use crate::error::ServeError;

pub(crate) use cors::cors;

/// All routes.
///
/// # Errors
/// An origin that is none, see [`cors`].
pub(crate) fn router(app: Arc<App>) -> Result<Router, ServeError> {
    let cors = cors(&app.config.cors_origins)?;
    let router = Router::new()
        .route("/v1/systemone", post(decide::systemone))
        .route("/systemone", post(decide::systemone))
        .route("/api/alpha/decisions", post(decide::systemone))
        .route("/v1/decisions", post(decide::either))
        .route("/decisions", post(decide::either))
        .route("/client/v4/accounts/{account}/ai/run/{*model}", post(decide::cloudflare))
        .route("/v1/models", get(ops::models))
        .route("/v1/models/{*id}", get(ops::model))
        .route("/gliclass", post(labels::gliclass))
        .route("/gliclass/-/healthz", get(ops::readyz))
        .route("/v1/classify/zero-shot", post(labels::zero_shot))
        .route("/models/{*id}", post(labels::zero_shot_of))
        .route("/pipeline/zero-shot-classification/{*id}", post(labels::zero_shot_of))
        .route("/predict", post(labels::predict))
        .route("/", get(pages::index).post(labels::predict))
        .route("/classify", post(labels::classify))
        .route("/v1/classify", post(labels::classify))
        .route("/v1/tokenize", post(tokenize::tokenize))
        .route("/livez", get(ops::livez))
        .route("/readyz", get(ops::readyz))
        .route("/health", get(ops::readyz))
        .route("/healthz", get(ops::readyz))
        .route("/ping", get(ops::readyz))
        .route("/metrics", get(ops::metrics))
        .route("/info", get(ops::info))
        .route("/openapi.json", get(pages::openapi))
        .route("/docs", get(pages::docs))
        .fallback(pages::not_found)
        .method_not_allowed_fallback(pages::method_not_allowed)
        .layer(from_fn_with_state(app.clone(), exchange::around))
        .with_state(app);
    // Around everything else: browsers ask for permission without a key.
    Ok(match cors {
        Some(cors) => router.layer(cors),
        None => router,
    })
}
