//! Work for the devices of a model: who waits, who is next, who is let in.
//!
//! The one place that decides what runs together. Requests wait as the sequences that they became; a worker takes the next
//! batch, the oldest waiting first, packed by tokens. A request with more sequences than fit goes to the back after each
//! of its turns, so that a small one never waits for all of a large one.
//!
//! Several devices take from the same queue, each as soon as it is idle: work goes to the least loaded one, and none
//! waits behind a busy device while another is idle.

mod admission;
mod batch;
mod state;
mod worker;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dikast_core::Error;
use tokio::sync::oneshot;
use tracing::Span;

pub(crate) use admission::Refused;
pub(crate) use batch::Taken;
use state::{Job, State};
pub(crate) use worker::{Ran, Watch, serve};

/// The sequences of one request; their owner keeps what its answer needs besides.
pub(crate) trait Work<S>: Send + Sync {
    /// The sequences, always the same ones in the same order.
    fn sequences(&self) -> Vec<&S>;
}

/// What a sequence takes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Token rows.
    pub(crate) tokens: usize,
    /// Logits.
    pub(crate) outputs: usize,
}

/// Limits of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Most tokens of one batch, and most logits; a longer sequence runs alone.
    pub(crate) batch_tokens: usize,
    /// How long the device waits for company for a request, at most.
    pub(crate) max_wait: Duration,
    /// Most tokens waiting and running; one request alone may have more.
    pub(crate) queue_tokens: usize,
    /// Most requests waiting and running.
    pub(crate) queue_requests: usize,
    /// Longest wait, as far as it can be foreseen.
    pub(crate) longest_wait: Duration,
}

/// What came out of a request's work.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Done {
    /// Logits of each sequence.
    pub(crate) logits: Vec<Vec<f32>>,
    /// The device that did the last of it, counted from 0.
    pub(crate) device: usize,
    /// What was needed to make the sequences, before they came here; set by who made them.
    pub(crate) prepared: Duration,
    /// From the arrival to the first turn.
    pub(crate) waited: Duration,
    /// From the first turn to the end of the last one.
    pub(crate) ran: Duration,
    /// What is left to do; ends when it is dropped.
    pub(crate) responding: Span,
}

/// A queue in front of a model's devices.
pub(crate) struct Queue<S> {
    state: Mutex<State<S>>,
    wake: Condvar,
    limits: Limits,
}

impl<S> Queue<S> {
    /// An empty queue.
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::new()), wake: Condvar::new(), limits })
    }

    /// Lets a request in, or says why not; its stages become spans below `request`. The ticket stands for its place: dropped, the
    /// place is free again.
    pub(crate) fn push(
        self: &Arc<Self>,
        work: Arc<dyn Work<S>>,
        loads: Vec<Load>,
        request: Span,
    ) -> Result<Ticket<S>, Refused> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.lock();
        let id = state.admit(&self.limits, Job::new(work, loads, reply, Instant::now(), request))?;
        drop(state);
        self.wake.notify_one();
        Ok(Ticket { queue: self.clone(), id, answer, answered: false })
    }

    /// Whether a request of any size would be refused now; asked before work is put into one.
    pub(crate) fn refuses(&self) -> Option<Refused> {
        self.lock().refuses(&self.limits, 1)
    }

    /// The next batch; waits for one. `None` once the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Taken<S>> {
        let mut state = self.lock();
        loop {
            match state.next(&self.limits, Instant::now()) {
                state::Next::Batch(batch) => {
                    // What it left is for another device, which may have been told of nothing yet.
                    if state.has_waiting() {
                        self.wake.notify_one();
                    }
                    return Some(batch);
                }
                state::Next::Closed => return None,
                state::Next::Wait(None) => {
                    state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                state::Next::Wait(Some(time)) => {
                    state = self.wake.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Hands out what a batch gave on a device: logits of its sequences in order.
    pub(crate) fn finish(&self, batch: &Taken<S>, device: usize, took: Duration, logits: Vec<Vec<f32>>) {
        let mut state = self.lock();
        let answers = state.finish(batch, device, took, logits);
        self.tell_the_end(&state);
        // Whoever wakes up finds the queue free.
        drop(state);
        for (reply, done) in answers {
            // Nobody may be there any more to hear it.
            let _ = reply.send(Ok(done));
        }
    }

    /// Fails the requests of a batch.
    pub(crate) fn fail(&self, batch: &Taken<S>, error: &Error) {
        let mut state = self.lock();
        state.fail(batch, error);
        self.tell_the_end(&state);
    }

    /// A device serves from now on.
    pub(crate) fn join(&self) {
        self.lock().devices += 1;
    }

    /// A device does not serve any more. The last one fails everybody inside with `error`, if there is one; whether it was.
    pub(crate) fn leave(&self, error: Option<&Error>) -> bool {
        let mut state = self.lock();
        state.devices = state.devices.saturating_sub(1);
        let last = state.devices == 0;
        drop(state);
        if let Some(error) = error.filter(|_| last) {
            self.abandon(error);
        }
        last
    }

    /// Workers that wait for work learn that none will come.
    fn tell_the_end(&self, state: &State<S>) {
        if state.closed && state.depth() == 0 {
            self.wake.notify_all();
        }
    }

    /// Lets nobody in any more; those inside are served.
    pub(crate) fn close(&self) {
        self.lock().close();
        self.wake.notify_all();
    }

    /// Fails everybody inside and lets nobody in any more.
    pub(crate) fn abandon(&self, error: &Error) {
        self.lock().abandon(error);
        self.wake.notify_all();
    }

    /// Requests inside, waiting or running.
    pub(crate) fn depth(&self) -> usize {
        self.lock().depth()
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        // Nothing in here panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue.
pub(crate) struct Ticket<S> {
    queue: Arc<Queue<S>>,
    id: u64,
    answer: oneshot::Receiver<Result<Done, Error>>,
    /// Nothing of it is in the queue any more.
    answered: bool,
}

impl<S> Ticket<S> {
    /// Whether the device has seen some of it.
    pub(crate) fn has_started(&self) -> bool {
        self.queue.lock().has_started(self.id)
    }

    /// Waits for the work to be done.
    pub(crate) async fn done(&mut self) -> Result<Done, Error> {
        let answer = (&mut self.answer).await;
        self.answered = true;
        answer.unwrap_or_else(|_| Err(Error::Internal("the worker ended".to_owned())))
    }
}

impl<S> Drop for Ticket<S> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let mut state = self.queue.lock();
        state.cancel(self.id);
        self.queue.tell_the_end(&state);
    }
}

#[cfg(test)]
mod tests;
