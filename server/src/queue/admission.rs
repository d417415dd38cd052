//! Who is let in.

use std::time::Duration;

use super::Limits;
use super::state::{Job, State};

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too many tokens or requests are inside.
    Full {
        /// When there may be room, from how fast the device has been.
        retry_after: Duration,
    },
    /// The queue is closed.
    Closed,
}

/// Shortest and longest advice.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);

impl<S> State<S> {
    /// Why a request of that many tokens would be refused.
    pub(super) fn refuses(&self, limits: &Limits, tokens: usize) -> Option<Refused> {
        if self.closed {
            return Some(Refused::Closed);
        }
        // A request that is larger than the queue would never find room: it may come when nobody else is there.
        let full = self.tokens.saturating_add(tokens) > limits.queue_tokens && !self.jobs.is_empty();
        (full || self.jobs.len() >= limits.queue_requests)
            .then(|| Refused::Full { retry_after: self.room_in() })
    }

    /// Takes a request in.
    pub(super) fn admit(&mut self, limits: &Limits, job: Job<S>) -> Result<u64, Refused> {
        let tokens = job.tokens_left();
        if let Some(refused) = self.refuses(limits, tokens) {
            return Err(refused);
        }
        self.tokens += tokens;
        let id = self.next_id;
        self.next_id += 1;
        self.jobs.insert(id, job);
        self.waiting.push_back(id);
        Ok(id)
    }

    /// When half of what is inside will be done.
    fn room_in(&self) -> Duration {
        let speed = self.tokens_per_second * self.devices.max(1) as f64;
        let seconds = self.tokens as f64 / 2.0 / speed.max(1.0);
        Duration::try_from_secs_f64(seconds).unwrap_or(LATEST).clamp(SOONEST, LATEST)
    }
}
