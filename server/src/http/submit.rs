//! From a checked request to its logits: preparation, the queue, the wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dikast_core::engine::Model;
use tokio::time::timeout_at;
use tracing::{Instrument as _, Span};

use super::body::{blocking, inline};
use crate::app::{App, draining};
use crate::model::{Host, Loaded, Slot, Status};
use crate::queue::{Done, Refused, Work};
use crate::trace;
use crate::wire::failure::Failure;

/// The model of a slot if it answers now.
pub(super) fn ready(slot: &Slot) -> Result<&Loaded, Failure> {
    let later = |code, message: &str, seconds| {
        Err(Failure::overloaded(code, format!("model {}: {message}", slot.id), Duration::from_secs(seconds)))
    };
    match (slot.status(), slot.loaded()) {
        // Who comes while a device is opened again waits in the queue.
        (Status::Ready | Status::Recovering, Some(loaded)) => Ok(loaded),
        (Status::Ended, _) => later("ended", "it does not answer any more", 5),
        _ => later("loading", "it is being loaded", 2),
    }
}

/// Prepares a request, on one of the threads for that unless it is `light`, and says how long that took; not at all if the queue is
/// full anyway.
pub(super) async fn prepare<M, T, F>(
    app: &App,
    slot: &Slot,
    host: &Arc<Host<M>>,
    deadline: Option<Instant>,
    light: bool,
    work: F,
) -> Result<(T, Duration), Failure>
where
    M: Model + Send + Sync + 'static,
    M::Sequence: Send,
    T: Send + 'static,
    F: FnOnce(&Host<M>) -> Result<T, dikast_core::Error> + Send + 'static,
{
    if let Some(refused) = host.queue.refuses() {
        return Err(full(slot, refused));
    }
    let prepare = async {
        let permit = app.preparing.acquire();
        let permit = match deadline {
            Some(deadline) => timeout_at(deadline.into(), permit).await.map_err(|_| late("prepared"))?,
            None => permit.await,
        };
        let _permit = permit.map_err(|_| draining())?;
        let start = Instant::now();
        let prepared = if light {
            inline(|| work(host))?
        } else {
            let host = host.clone();
            blocking(move || work(&host)).await?
        };
        let prepared = prepared?;
        let took = start.elapsed();
        app.metrics.prepared(&slot.id, took);
        Ok((prepared, took))
    };
    prepare.instrument(trace::prepare()).await
}

/// Waits for the logits of a request. Dropped, it leaves its place to others.
pub(super) async fn logits<M: Model>(
    app: &App,
    slot: &Slot,
    host: &Host<M>,
    deadline: Option<Instant>,
    work: Arc<dyn Work<M::Sequence>>,
) -> Result<Done, Failure> {
    let loads = Host::<M>::loads(&*work);
    let mut ticket = host.queue.push(work, loads, Span::current()).map_err(|refused| full(slot, refused))?;
    let patience = Instant::now() + app.config.queue_timeout;
    let first = deadline.map_or(patience, |deadline| deadline.min(patience));
    let done = match timeout_at(first.into(), ticket.done()).await {
        Ok(done) => done?,
        Err(_) if deadline == Some(first) => return Err(late("done")),
        Err(_) if !ticket.has_started() => return Err(waited(app.config.queue_timeout)),
        // The device is at it.
        Err(_) => match deadline {
            Some(deadline) => {
                timeout_at(deadline.into(), ticket.done()).await.map_err(|_| late("done"))??
            }
            None => ticket.done().await?,
        },
    };
    app.metrics.done(&slot.id, &done);
    Ok(done)
}

fn full(slot: &Slot, refused: Refused) -> Failure {
    match refused {
        Refused::Closed => draining(),
        Refused::Full { retry_after } => {
            Failure::overloaded("queue_full", format!("model {}: its queue is full", slot.id), retry_after)
        }
    }
}

fn late(what: &str) -> Failure {
    Failure::late(format!("the time of x-request-timeout was over before the request was {what}"))
}

fn waited(limit: Duration) -> Failure {
    let message = format!("no turn came within the {} s that a request waits here", limit.as_secs_f64());
    Failure::overloaded("queue_timeout", message, Duration::from_secs(1))
}
