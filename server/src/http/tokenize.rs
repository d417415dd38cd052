//! The route that counts tokens.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use dikast_core::request::Json;
use dikast_core::tokens::Tokenizer;

use super::answer::{Call, media_limits};
use super::body::blocking;
use super::context::Context;
use super::decide;
use super::reply::{json, refuse};
use super::submit::ready;
use crate::app::App;
use crate::model::Loaded;
use crate::wire::failure::Failure;
use crate::wire::systemone;
use crate::wire::tokenize::{self as form, Asked};

/// Ids of texts, or the number of tokens of a System One request.
pub(super) async fn tokenize(
    State(app): State<Arc<App>>,
    Extension(context): Extension<Context>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match counted(&app, &context, &headers, body).await {
        Ok(body) => json(StatusCode::OK, &body),
        Err(failure) => refuse(&context, &failure),
    }
}

async fn counted(app: &App, context: &Context, headers: &HeaderMap, body: Body) -> Result<Json, Failure> {
    let mut call = Call::read(app, context, headers, body).await?;
    let (model, asked) = form::asked(std::mem::replace(&mut call.body, Json::Null))?;
    let _permit = app.preparing.acquire().await.map_err(|_| crate::app::draining())?;
    match asked {
        Asked::Request(body) => {
            let slot = app.models.find(model.as_deref(), true)?;
            let (host, confidence) = (decide::host(slot)?.clone(), app.config.confidence);
            let (id, most) = (slot.id.clone(), host.max_tokens);
            let tokens = blocking(move || {
                let request = systemone::request(body, confidence)?;
                let sequence = host.model.sequence(&request, most, &media_limits(most))?;
                Ok::<_, Failure>(sequence.record.tokens())
            });
            Ok(form::counted(&id, most, tokens.await??))
        }
        Asked::Texts(texts, batch) => {
            let slot = match &model {
                None => app.models.find(None, true).or_else(|_| app.models.find(None, false))?,
                Some(name) => {
                    app.models.find(Some(name), true).or_else(|_| app.models.find(Some(name), false))?
                }
            };
            let (tokenizer, most): (Tokenizer, usize) = match ready(slot)? {
                Loaded::Clef(host) => (host.model.prompt().tokenizer().clone(), host.max_tokens),
                Loaded::GliClass(host) => (host.model.tokenizer().clone(), host.max_tokens),
            };
            let ids = blocking(move || {
                texts.iter().map(|text| tokenizer.plain_ids(text)).collect::<Result<Vec<_>, _>>()
            });
            Ok(form::tokens(&slot.id, most, &ids.await??, batch))
        }
    }
}
