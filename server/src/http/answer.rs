//! Answers of typed questions and of labels, by any of the formats.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::HeaderMap;
use dikast_core::answers::{self, Answer, Classification, DecideReceipt, Decision, Receipt};
use dikast_core::media::MediaLimits;
use dikast_core::models::clef::Clef;
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::{ClassifyRequest, DecideRequest, Json};
use dikast_core::tokens::gliclass::{Prepared, prepare as prepare_labels};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument as _;

use super::context::{Context, Facts};
use super::{body, deadline, submit};
use crate::app::{App, InFlight};
use crate::model::{Host, Slot};
use crate::queue::Done;
use crate::trace;
use crate::wire::failure::Failure;

/// A request that was let in, with its body.
pub(super) struct Call {
    pub(super) body: Json,
    pub(super) deadline: Option<Instant>,
    /// Its body is small, see [`body::Read`].
    light: bool,
    /// Counted as running.
    _in_flight: InFlight,
    /// What its body takes of the room for bodies.
    _room: OwnedSemaphorePermit,
}

impl Call {
    /// Lets a request in and reads its body.
    pub(super) async fn read(
        app: &App,
        context: &Context,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Self, Failure> {
        let in_flight = app.enter()?;
        let deadline = deadline::of(context, headers)?;
        let read = body::json(app, context, headers, body).instrument(trace::receive()).await?;
        Ok(Self { body: read.json, deadline, light: read.light, _in_flight: in_flight, _room: read.room })
    }
}

/// Pictures of a request: 16 megapixels each, as Workers AI documents for Clef, and no more patches than fit the model's
/// limit of tokens, of which each stands for four.
pub(super) fn media_limits(max_tokens: usize) -> MediaLimits {
    let mut limits = MediaLimits::default();
    limits.pixels = 16_000_000;
    limits.patches = limits.patches.min(max_tokens.saturating_mul(4));
    limits
}

/// Answers typed questions. The answer names the served model.
pub(super) async fn decide(
    app: &App,
    slot: &Slot,
    host: &Arc<Host<Clef>>,
    call: &Call,
    request: DecideRequest,
) -> Result<(Decision, Done), Failure> {
    let light = call.light && request.images.is_empty() && request.videos.is_empty();
    let prepared = submit::prepare(app, slot, host, call.deadline, light, move |host: &Host<Clef>| {
        let sequence = host.model.sequence(&request, host.max_tokens, &media_limits(host.max_tokens))?;
        Ok((request, Arc::new(sequence)))
    });
    let ((request, sequence), prepared) = prepared.await?;
    let done = submit::logits(app, slot, host, call.deadline, sequence.clone()).await?;
    let done = Done { prepared, ..done };
    let rows = sequence.by_question(done.logits.first().map_or(&[], Vec::as_slice));
    let receipt = DecideReceipt {
        model: slot.id.clone(),
        checkpoint_digest: host.digest.get().cloned(),
        backend: host.device(done.device).backend.clone(),
        device: Some(host.device(done.device).device.clone()),
        quantization: host.format.clone(),
        ..DecideReceipt::default()
    };
    let decision = answers::decide(&request, &sequence.record, &rows, receipt)?;
    let cut = decision.receipt.dropped_state_tokens > 0;
    app.metrics.read(&slot.id, decision.receipt.tokens, cut);
    for (kind, of) in [
        ("noul", (|a| matches!(a, Answer::Noul { .. })) as fn(&Answer) -> bool),
        ("choice", |a| matches!(a, Answer::Choice { .. })),
        ("score", |a| matches!(a, Answer::Score { .. })),
    ] {
        let count = decision.answers.iter().filter(|(_, answer)| of(answer)).count();
        app.metrics.questions(kind, count as u64);
    }
    Ok((decision, done))
}

/// What the log says of a decision.
pub(super) fn decided(decision: &Decision) -> Facts {
    Facts {
        model: Some(decision.receipt.model.clone()),
        tokens: decision.receipt.tokens,
        questions: decision.answers.len() as u64,
        ..Facts::default()
    }
}

/// Judges texts by labels, one answer a request.
pub(super) async fn classify(
    app: &App,
    slot: &Slot,
    host: &Arc<Host<GliClass>>,
    call: &Call,
    requests: Vec<ClassifyRequest>,
) -> Result<(Vec<Classification>, Done), Failure> {
    let prepared =
        submit::prepare(app, slot, host, call.deadline, call.light, move |host: &Host<GliClass>| {
            let (config, tokenizer) = (host.model.config(), host.model.tokenizer());
            let all = requests.iter().map(|r| prepare_labels(config, tokenizer, r, host.max_tokens));
            let all: Vec<Prepared> = all.collect::<Result<_, _>>()?;
            Ok((requests, Arc::new(all)))
        });
    let ((requests, prepared), took) = prepared.await?;
    let done = submit::logits(app, slot, host, call.deadline, prepared.clone()).await?;
    let done = Done { prepared: took, ..done };
    let mut rows = done.logits.iter();
    let mut all = Vec::with_capacity(requests.len());
    for (request, prepared) in requests.iter().zip(prepared.iter()) {
        let own: Vec<Vec<f32>> = rows.by_ref().take(prepared.sequences.len()).cloned().collect();
        let receipt = Receipt {
            model: slot.id.clone(),
            checkpoint_digest: host.digest.get().cloned(),
            backend: host.device(done.device).backend.clone(),
            quantization: host.format.clone(),
            ..Receipt::default()
        };
        all.push(answers::assemble(request, prepared, &own, receipt)?);
    }
    let tokens = all.iter().map(|a| a.receipt.tokens).sum();
    app.metrics.read(&slot.id, tokens, all.iter().any(|a| a.receipt.dropped_text_tokens > 0));
    app.metrics.questions("labels", all.len() as u64);
    Ok((all, done))
}
