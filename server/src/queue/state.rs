//! Who is inside.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dikast_core::Error;
use tokio::sync::oneshot;
use tracing::Span;

use super::batch::{Room, Slice, Taken};
use super::{Done, Limits, Load, Work};
use crate::trace::Stages;

/// Where a request's answer goes.
pub(super) type Reply = oneshot::Sender<Result<Done, Error>>;

/// A request inside.
pub(super) struct Job<S> {
    work: Arc<dyn Work<S>>,
    loads: Vec<Load>,
    reply: Reply,
    arrived: Instant,
    started: Option<Instant>,
    stages: Stages,
    /// Batches that it has been in.
    turns: usize,
    /// Sequences given to devices so far, from the first on.
    taken: usize,
    /// Logits by sequence. With several devices a later slice may be done before an earlier one.
    logits: Vec<Option<Vec<f32>>>,
    /// The device of the last slice that was done.
    device: usize,
}

impl<S> Job<S> {
    pub(super) fn new(
        work: Arc<dyn Work<S>>,
        loads: Vec<Load>,
        reply: Reply,
        arrived: Instant,
        request: Span,
    ) -> Self {
        let logits = vec![None; loads.len()];
        let stages = Stages::queued(request);
        Self { work, loads, reply, arrived, started: None, stages, turns: 0, taken: 0, logits, device: 0 }
    }

    /// Tokens without logits so far.
    pub(super) fn tokens_left(&self) -> usize {
        let open = self.loads.iter().zip(&self.logits).filter(|(_, logits)| logits.is_none());
        open.map(|(load, _)| load.tokens).sum()
    }

    /// Tokens not yet given to a device.
    fn tokens_waiting(&self) -> usize {
        self.loads[self.taken..].iter().map(|load| load.tokens).sum()
    }
}

pub(super) struct State<S> {
    /// Everybody inside.
    pub(super) jobs: HashMap<u64, Job<S>>,
    /// Those with sequences that no batch has yet; the one whose turn is longest ago first. May name some who left.
    pub(super) waiting: VecDeque<u64>,
    /// Tokens of everybody inside that are not done.
    pub(super) tokens: usize,
    pub(super) next_id: u64,
    pub(super) closed: bool,
    /// How fast one device has been lately; 0 before the first batch.
    pub(super) tokens_per_second: f64,
    /// Devices that serve.
    pub(super) devices: usize,
}

/// What the worker does next.
pub(super) enum Next<S> {
    Batch(Taken<S>),
    /// Wait for news, or for that long.
    Wait(Option<Duration>),
    /// Nobody is there and nobody will come.
    Closed,
}

impl<S> State<S> {
    pub(super) fn new() -> Self {
        Self {
            jobs: HashMap::new(),
            waiting: VecDeque::new(),
            tokens: 0,
            next_id: 0,
            closed: false,
            tokens_per_second: 0.0,
            devices: 0,
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.jobs.len()
    }

    /// Whether something waits that no device has.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a request had a turn; also true for one that is done.
    pub(super) fn has_started(&self, id: u64) -> bool {
        self.jobs.get(&id).is_none_or(|job| job.started.is_some())
    }

    pub(super) fn next(&mut self, limits: &Limits, now: Instant) -> Next<S> {
        self.waiting.retain(|id| self.jobs.contains_key(id));
        let Some(oldest) = self.waiting.front().and_then(|id| self.jobs.get(id)) else {
            return if self.closed && self.jobs.is_empty() { Next::Closed } else { Next::Wait(None) };
        };
        let waited = now.saturating_duration_since(oldest.arrived);
        // Who had a turn before does not wait for company again.
        let patient = oldest.started.is_none() && waited < limits.max_wait && !self.closed;
        if patient {
            let tokens: usize =
                self.waiting.iter().filter_map(|id| self.jobs.get(id)).map(Job::tokens_waiting).sum();
            if tokens < limits.batch_tokens {
                return Next::Wait(Some(limits.max_wait - waited));
            }
        }
        Next::Batch(self.pack(limits, now))
    }

    /// The next batch: as much as fits of each waiting request in turn, at least one sequence of the first.
    fn pack(&mut self, limits: &Limits, now: Instant) -> Taken<S> {
        let mut room = Room::new(limits.batch_tokens);
        let mut slices = Vec::new();
        let (mut passed, mut again) = (VecDeque::new(), VecDeque::new());
        while let Some(id) = self.waiting.pop_front() {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let fitting = if room.is_used_up() { 0 } else { room.fit(&job.loads[job.taken..]) };
            if fitting == 0 {
                passed.push_back(id);
                continue;
            }
            let range = job.taken..job.taken + fitting;
            job.taken = range.end;
            job.started.get_or_insert(now);
            job.turns += 1;
            let tokens = job.loads[range.clone()].iter().map(|load| load.tokens).sum();
            slices.push(Slice { job: id, work: job.work.clone(), range, tokens });
            if job.taken < job.loads.len() {
                again.push_back(id);
            }
        }
        passed.append(&mut again);
        self.waiting = passed;
        let batch = Taken { slices };
        for slice in &batch.slices {
            if let Some(job) = self.jobs.get_mut(&slice.job).filter(|job| job.turns == 1) {
                job.stages.started(batch.requests(), batch.tokens());
            }
        }
        batch
    }

    /// Puts the logits of a batch where they belong; the requests that have all of theirs leave with them.
    pub(super) fn finish(
        &mut self,
        batch: &Taken<S>,
        device: usize,
        took: Duration,
        logits: Vec<Vec<f32>>,
    ) -> Vec<(Reply, Done)> {
        self.remember_speed(batch.tokens(), took);
        let mut answers = Vec::with_capacity(batch.slices.len());
        let mut logits = logits.into_iter();
        for slice in &batch.slices {
            let own: Vec<Vec<f32>> = logits.by_ref().take(slice.range.len()).collect();
            // It may have left meanwhile.
            let Some(job) = self.jobs.get_mut(&slice.job) else { continue };
            self.tokens -= slice.tokens;
            for (place, logits) in job.logits[slice.range.clone()].iter_mut().zip(own) {
                *place = Some(logits);
            }
            job.device = device;
            if job.logits.iter().all(Option::is_some)
                && let Some(job) = self.jobs.remove(&slice.job)
            {
                let started = job.started.unwrap_or(job.arrived);
                let done = Done {
                    logits: job.logits.into_iter().flatten().collect(),
                    device: job.device,
                    prepared: Duration::ZERO,
                    waited: started.saturating_duration_since(job.arrived),
                    ran: started.elapsed(),
                    responding: job.stages.done(job.turns, job.device),
                };
                answers.push((job.reply, done));
            }
        }
        answers
    }

    pub(super) fn fail(&mut self, batch: &Taken<S>, error: &Error) {
        for slice in &batch.slices {
            if let Some(job) = self.leave(slice.job) {
                let _ = job.reply.send(Err(error.clone()));
            }
        }
    }

    pub(super) fn cancel(&mut self, id: u64) {
        self.leave(id);
    }

    fn leave(&mut self, id: u64) -> Option<Job<S>> {
        let job = self.jobs.remove(&id)?;
        self.tokens -= job.tokens_left();
        Some(job)
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn abandon(&mut self, error: &Error) {
        self.closed = true;
        for (_, job) in self.jobs.drain() {
            let _ = job.reply.send(Err(error.clone()));
        }
        self.waiting.clear();
        self.tokens = 0;
    }

    /// A moving average over about ten batches.
    fn remember_speed(&mut self, tokens: usize, took: Duration) {
        let speed = tokens as f64 / took.as_secs_f64().max(1e-6);
        self.tokens_per_second =
            if self.tokens_per_second == 0.0 { speed } else { 0.9 * self.tokens_per_second + 0.1 * speed };
    }
}
