//! The routes of typed questions.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use dikast_core::models::clef::Clef;
use dikast_core::request::Json;

use super::answer::{self, Call};
use super::context::Context;
use super::receipt;
use super::reply::{Answered, reply};
use super::submit::ready;
use crate::app::App;
use crate::model::{Host, Loaded, Slot};
use crate::wire::contract::{Contract, only_systemone, sniff};
use crate::wire::failure::Failure;
use crate::wire::json::push;
use crate::wire::{choices, cloudflare as envelope, decisions, systemone as form};

/// System One alone.
pub(super) async fn systemone(
    State(app): State<Arc<App>>,
    Extension(context): Extension<Context>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let outcome = async {
        let call = Call::read(&app, &context, &headers, body).await?;
        only_systemone(&call.body)?;
        one(&app, call, &headers, None).await
    };
    reply(&context, outcome.await)
}

/// Both contracts; the body says which.
pub(super) async fn either(
    State(app): State<Arc<App>>,
    Extension(context): Extension<Context>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let outcome = async {
        let call = Call::read(&app, &context, &headers, body).await?;
        match sniff(&call.body)? {
            Contract::SystemOne => one(&app, call, &headers, None).await,
            Contract::Decisions => openai(&app, call, &headers).await,
        }
    };
    reply(&context, outcome.await)
}

/// System One in the envelope of Workers AI; the path names the model.
pub(super) async fn cloudflare(
    State(app): State<Arc<App>>,
    Extension(context): Extension<Context>,
    Path((_account, model)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let outcome = async {
        let call = Call::read(&app, &context, &headers, body).await?;
        only_systemone(&call.body)?;
        let mut answered = one(&app, call, &headers, Some(&model)).await?;
        answered.body = envelope::answered(answered.body);
        Ok(answered)
    };
    reply(&context, outcome.await)
}

async fn one(
    app: &App,
    mut call: Call,
    headers: &HeaderMap,
    in_path: Option<&str>,
) -> Result<Answered, Failure> {
    let named = match call.body.get("model") {
        None | Some(Json::Null) => None,
        Some(Json::String(name)) => Some(name.clone()),
        Some(other) => {
            return Err(Failure::invalid("model", format!("{} found, a string is allowed", other.kind())));
        }
    };
    let slot = match (in_path, &named) {
        (None, None) => return Err(Failure::invalid("model", "missing")),
        (None, Some(name)) => app.models.find_for_choices(name)?,
        (Some(path), named) => {
            let slot = app.models.find_for_choices(path)?;
            if let Some(name) = named
                && app.models.find_for_choices(name).map(|other| &other.id) != Ok(&slot.id)
            {
                return Err(Failure::invalid("model", "another model than the path's found; leave it out"));
            }
            slot
        }
    };
    let request = form::request(std::mem::replace(&mut call.body, Json::Null), app.config.confidence)?;
    let loaded = ready(slot)?;
    let (decision, done) = match loaded {
        Loaded::Clef(host) => answer::decide(app, slot, host, &call, request).await?,
        Loaded::GliClass(host) => {
            let labels = choices::requests(&request)?;
            let (answers, done) = answer::classify(app, slot, host, &call, labels).await?;
            (choices::decision(&request, &answers), done)
        }
    };
    let mut body = form::response(&decision, app.config.decimals);
    let device = loaded.device(done.device);
    let receipt = receipt::wanted(headers).then(|| receipt::of_decision(&decision.receipt, device));
    if let Some(receipt) = &receipt {
        push(&mut body, "x_receipt", receipt.clone());
    }
    Ok(Answered { receipt, ..Answered::new(body, answer::decided(&decision), done) })
}

async fn openai(app: &App, mut call: Call, headers: &HeaderMap) -> Result<Answered, Failure> {
    let body = std::mem::replace(&mut call.body, Json::Null);
    let mut asked = decisions::request(body, app.config.confidence)?;
    let name = asked.request.model.take().ok_or_else(|| Failure::invalid("model", "missing"))?;
    let slot = app.models.find(Some(&name), true)?;
    let host = host(slot)?;
    let request = asked.request.clone();
    let (decision, done) = answer::decide(app, slot, host, &call, request).await?;
    let body = decisions::response(&decision, &asked, &slot.id, app.config.decimals);
    let device = host.device(done.device);
    let receipt = receipt::wanted(headers).then(|| receipt::of_decision(&decision.receipt, device));
    Ok(Answered { receipt, ..Answered::new(body, answer::decided(&decision), done) })
}

/// The loaded model of a slot for typed questions.
pub(super) fn host(slot: &Slot) -> Result<&Arc<Host<Clef>>, Failure> {
    match ready(slot)? {
        Loaded::Clef(host) => Ok(host),
        Loaded::GliClass(_) => Err(Failure::internal("a model for labels was found for typed questions")),
    }
}
