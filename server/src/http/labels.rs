//! The routes of labels.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::Json;

use super::answer::{self, Call};
use super::context::{Context, Facts};
use super::receipt;
use super::reply::{Answered, reply};
use super::submit::ready;
use crate::app::{App, now};
use crate::model::{Host, Loaded, Slot};
use crate::wire::failure::Failure;
use crate::wire::labels::{LabelCall, Told};
use crate::wire::{gliclass as serve, tei, vllm, zero_shot as hugging_face};

/// Reads a body of one of the formats; gets the server's own labels.
type Read = fn(&Json, &[String]) -> Result<LabelCall, Failure>;

/// GLiClass serve.
pub(super) async fn gliclass(
    app: State<Arc<App>>,
    context: Extension<Context>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    labels(&app, &context, &headers, body, None, |body, _| serve::call(body)).await
}

/// Hugging Face zero-shot; the body may name the model.
pub(super) async fn zero_shot(
    app: State<Arc<App>>,
    context: Extension<Context>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    labels(&app, &context, &headers, body, None, |body, _| hugging_face::call(body)).await
}

/// Hugging Face zero-shot; the path names the model.
pub(super) async fn zero_shot_of(
    app: State<Arc<App>>,
    context: Extension<Context>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    labels(&app, &context, &headers, body, Some(&id), |body, _| hugging_face::call(body)).await
}

/// Text Embeddings Inference, or zero-shot if the body has labels.
pub(super) async fn predict(
    app: State<Arc<App>>,
    context: Extension<Context>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    labels(&app, &context, &headers, body, None, tei::call).await
}

/// vLLM.
pub(super) async fn classify(
    app: State<Arc<App>>,
    context: Extension<Context>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    labels(&app, &context, &headers, body, None, vllm::call).await
}

async fn labels(
    app: &App,
    context: &Context,
    headers: &HeaderMap,
    body: Body,
    in_path: Option<&str>,
    read: Read,
) -> Response {
    let outcome = async {
        let call = Call::read(app, context, headers, body).await?;
        let LabelCall { model, requests, respond } = read(&call.body, &app.config.default_labels)?;
        let slot = app.models.find(in_path.or(model.as_deref()), false)?;
        let host = host(slot)?;
        let (answers, done) = answer::classify(app, slot, host, &call, requests).await?;
        let told = Told {
            model: slot.id.clone(),
            decimals: app.config.decimals,
            request_id: context.id.clone(),
            now: now().as_secs(),
        };
        let facts = Facts {
            model: Some(slot.id.clone()),
            tokens: answers.iter().map(|a| a.receipt.tokens).sum(),
            questions: answers.len() as u64,
            ..Facts::default()
        };
        let receipt =
            receipt::wanted(headers).then(|| receipt::of_labels(&answers, host.device(done.device)));
        Ok(Answered { receipt, ..Answered::new(respond(&answers, &told), facts, done) })
    };
    reply(context, outcome.await)
}

/// The loaded model of a slot for labels.
pub(super) fn host(slot: &Slot) -> Result<&Arc<Host<GliClass>>, Failure> {
    match ready(slot)? {
        Loaded::GliClass(host) => Ok(host),
        Loaded::Clef(_) => Err(Failure::internal("a model for typed questions was found for labels")),
    }
}
