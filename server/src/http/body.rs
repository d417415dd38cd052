//! Bodies: limits before anything is read, then bytes, then JSON.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use dikast_core::request::Json;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::context::Context;
use super::decompress::{self, Encoding};
use super::multipart;
use crate::app::App;
use crate::wire::dialect::Dialect;
use crate::wire::failure::Failure;

/// Bodies from this size on are decoded and parsed beside the network's threads.
const LARGE: usize = 64 << 10;
/// Up to this size, and without pictures, a request's tokens are made faster than another thread wakes up and answers.
const LIGHT: usize = 8 << 10;

/// A body that was read.
pub(super) struct Read {
    pub(super) json: Json,
    /// What is made of it takes no thread of its own, unless there are pictures.
    pub(super) light: bool,
    /// The room that it takes, which is free again when this is dropped.
    pub(super) room: OwnedSemaphorePermit,
}

/// A body as JSON.
pub(super) async fn json(
    app: &App,
    context: &Context,
    headers: &HeaderMap,
    body: Body,
) -> Result<Read, Failure> {
    let boundary = multipart::boundary(headers).filter(|_| context.dialect != Dialect::Labels).transpose()?;
    if boundary.is_none() {
        content_type(headers)?;
    }
    let encoding = Encoding::of(headers)?;
    let config = &app.config;
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > config.body_bytes as u64) {
        return Err(Failure::too_large("the body", config.body_bytes as u64));
    }
    // A body of unknown length may become the largest one; compressed ones grow.
    let plain = encoding == Encoding::Plain;
    let expected = match declared {
        Some(length) if plain => length as usize,
        Some(length) => (length as usize).saturating_mul(8).min(config.plain_bytes),
        None => config.body_bytes,
    };
    let room = room(&app.body_room, expected)?;
    let bytes = read(body, config.body_bytes, config.read_timeout).await?;
    let most = config.plain_bytes;
    let decode = move || {
        let text = decompress::decompress(encoding, bytes, most)?;
        let light = text.len() <= LIGHT;
        let json = match boundary {
            Some(boundary) => multipart::json(text, boundary),
            None => Json::parse(&text).map_err(Failure::from),
        };
        json.map(|json| (json, light))
    };
    let (json, light) = if expected < LARGE { decode()? } else { blocking(decode).await?? };
    Ok(Read { json, light, room })
}

/// Runs work that is done sooner than a thread of its own would wake up.
pub(super) fn inline<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    // What it leaves half-way is its own.
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| panicked())
}

fn panicked() -> Failure {
    Failure::internal("what prepares requests panicked; see standard error")
}

/// Runs work that takes its time on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| panicked())
}

fn room(all: &Arc<Semaphore>, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
    let kib = u32::try_from((bytes >> 10) + 1).unwrap_or(u32::MAX);
    all.clone().try_acquire_many_owned(kib).map_err(|_| {
        let soon = std::time::Duration::from_secs(1);
        Failure::overloaded("bodies_full", "too many bytes of other requests are being read", soon)
    })
}

fn content_type(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let lower = essence.to_ascii_lowercase();
    if lower == "application/json" || (lower.starts_with("application/") && lower.ends_with("+json")) {
        return Ok(());
    }
    Err(Failure::media_type("another Content-Type found; send application/json"))
}

async fn read(body: Body, most: usize, time: std::time::Duration) -> Result<Bytes, Failure> {
    let collected = tokio::time::timeout(time, Limited::new(body, most).collect()).await;
    match collected.map_err(|_| Failure::slow_body(time))? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::too_large("the body", most as u64)),
        // Whoever sent this is gone, or speaks no HTTP.
        Err(_) => Err(Failure::invalid("request", "the body broke off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_fault_of_the_server_and_ends_nothing() {
        let fault = inline(|| assert!(std::env::args().count() > 1000, "the test's own panic"));
        assert_eq!(fault.map_err(|failure| failure.kind), Err(crate::wire::failure::Kind::Internal));
        assert_eq!(inline(|| 5), Ok(5));
    }
}
