//! Many callers, one device: a thread owns the device, packs what waits into batches and hands each caller its own part.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use super::{EngineOptions, batch_len};
use crate::models::gliclass::GliClass;
use crate::tokens::Sequence;
use crate::{Error, Result};

/// Logits of each sequence of a group, one per class.
pub type Logits = Vec<Vec<f32>>;

/// Groups of sequences that may wait for the device; who comes after them waits to hand his in.
pub const WAITING: usize = 1024;

/// A handle to the thread; clones share it. The thread ends, after what waits, when the last handle is gone.
#[derive(Debug, Clone)]
pub struct Packer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // What it was doing when it panicked was told to those who waited for it.
            let _ = thread.join();
        }
    }
}

/// A group of sequences, and where their logits go. Without an answer its end is one.
#[derive(Debug)]
struct Job {
    sequences: Arc<[Sequence]>,
    place: Arc<Place>,
}

impl Job {
    /// Whether somebody still waits.
    fn wanted(&self) -> bool {
        Arc::strong_count(&self.place) > 1
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.place.put(Err(Error::Internal("the device's thread has ended".to_owned())));
    }
}

/// Where a caller finds its logits: the first put there stay.
#[derive(Debug, Default)]
struct Place {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    put: bool,
    logits: Option<Result<Logits>>,
    waker: Option<Waker>,
}

impl Place {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, logits: Result<Logits>) {
        let mut state = self.state();
        if state.put {
            return;
        }
        state.put = true;
        state.logits = Some(logits);
        let waker = state.waker.take();
        drop(state);
        self.arrived.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Logits on their way: a future, or something to wait for. Whoever drops it is not computed for any more, unless the
/// batch has begun.
#[derive(Debug)]
#[must_use = "dropping it cancels the work"]
pub struct Pending {
    place: Arc<Place>,
}

impl Pending {
    /// Blocks until the logits are there.
    ///
    /// # Errors
    /// What the forward pass returned.
    pub fn wait(self) -> Result<Logits> {
        let mut state = self.place.state();
        loop {
            if let Some(logits) = state.logits.take() {
                return logits;
            }
            state = self.place.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Future for Pending {
    type Output = Result<Logits>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.place.state();
        if let Some(logits) = state.logits.take() {
            return Poll::Ready(logits);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Packer {
    /// Starts the thread. `open` runs there and makes what computes: sequences that fit one batch → logits of each. Of
    /// `options` the size of a batch counts; at most `waiting` groups wait.
    ///
    /// # Errors
    /// Those of `open`; [`Error::Internal`] when no thread can be started.
    pub fn start<F>(
        open: impl FnOnce() -> Result<F> + Send + 'static,
        options: &EngineOptions,
        waiting: usize,
    ) -> Result<Self>
    where
        F: FnMut(&[&Sequence]) -> Result<Logits>,
    {
        let budget = options.batch_tokens;
        let (jobs, waiting) = sync_channel(waiting);
        let (opened, ready) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("device".to_owned())
            .spawn(move || match open() {
                Ok(mut compute) => {
                    let _ = opened.send(Ok(()));
                    serve(&mut compute, &waiting, budget);
                }
                Err(error) => drop(opened.send(Err(error))),
            })
            .map_err(|e| Error::Internal(format!("starting the device's thread: {e}")))?;
        let shared = Shared { jobs: Some(jobs), thread: Some(thread) };
        ready.recv().unwrap_or_else(|_| Err(Error::Internal("opening the device panicked".to_owned())))?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Hands in a group of sequences; blocks while too many wait.
    ///
    /// # Errors
    /// [`Error::Internal`] when the thread has ended.
    pub fn submit(&self, sequences: Arc<[Sequence]>) -> Result<Pending> {
        let (job, pending) = job(sequences);
        match &self.shared.jobs {
            // Without a thread the job comes back and its end is the answer.
            Some(jobs) => drop(jobs.send(job)),
            None => drop(job),
        }
        Ok(pending)
    }

    /// The same, but `None` instead of waiting for room.
    ///
    /// # Errors
    /// As [`Packer::submit`].
    pub fn try_submit(&self, sequences: Arc<[Sequence]>) -> Result<Option<Pending>> {
        let (job, pending) = job(sequences);
        match self.shared.jobs.as_ref().map(|jobs| jobs.try_send(job)) {
            Some(Err(TrySendError::Full(_))) => Ok(None),
            _ => Ok(Some(pending)),
        }
    }
}

fn job(sequences: Arc<[Sequence]>) -> (Job, Pending) {
    let place = Arc::new(Place::default());
    (Job { sequences, place: Arc::clone(&place) }, Pending { place })
}

/// Packs what waits, as much as fits a batch, until every handle is gone.
fn serve(compute: &mut impl FnMut(&[&Sequence]) -> Result<Logits>, jobs: &Receiver<Job>, budget: usize) {
    let mut held = None;
    while let Some(first) = held.take().or_else(|| jobs.recv().ok()) {
        let (mut batch, mut tokens, mut classes) = (Vec::new(), 0, 0);
        let mut next = Some(first);
        while let Some(job) = next.take() {
            if job.wanted() {
                let own_tokens: usize = job.sequences.iter().map(|s| s.ids.len()).sum();
                let own_classes: usize = job.sequences.iter().map(|s| s.classes.len()).sum();
                (tokens, classes) = (tokens + own_tokens, classes + own_classes);
                if !batch.is_empty() && tokens.max(classes) > budget {
                    held = Some(job);
                    break;
                }
                batch.push(job);
            }
            next = jobs.try_recv().ok();
        }
        answer(compute, &batch, budget);
    }
}

fn answer(compute: &mut impl FnMut(&[&Sequence]) -> Result<Logits>, batch: &[Job], budget: usize) {
    let sequences: Vec<&Sequence> = batch.iter().flat_map(|job| job.sequences.iter()).collect();
    let mut logits = Vec::with_capacity(sequences.len());
    let mut rest = sequences.as_slice();
    let mut failed = None;
    // One group may be more than a batch.
    while !rest.is_empty() && failed.is_none() {
        let (now, later) = rest.split_at(batch_len::<GliClass>(rest, budget));
        match compute(now) {
            Ok(part) if part.len() == now.len() => logits.extend(part),
            Ok(part) => {
                let message = format!("logits of {} sequences for {}", part.len(), now.len());
                failed = Some(Error::Internal(message));
            }
            Err(error) => failed = Some(error),
        }
        rest = later;
    }
    let mut logits = logits.into_iter();
    for job in batch {
        let own: Logits = logits.by_ref().take(job.sequences.len()).collect();
        job.place.put(match &failed {
            Some(error) if own.len() < job.sequences.len() => Err(error.clone()),
            _ => Ok(own),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::tokens::Span;

    fn sequence(tokens: usize, id: u32) -> Sequence {
        Sequence {
            ids: vec![id; tokens],
            attended: tokens as u32,
            segments: Vec::new(),
            classes: vec![Span::default()],
            text: Span::default(),
            text_padding: 0,
            dropped_text_tokens: 0,
        }
    }

    fn group(tokens: usize, id: u32) -> Arc<[Sequence]> {
        Arc::from(vec![sequence(tokens, id)])
    }

    fn options(batch_tokens: usize) -> EngineOptions {
        EngineOptions { batch_tokens, ..EngineOptions::default() }
    }

    /// Answers with the first id; waits for a word before each batch and reports its ids.
    fn gated() -> (Packer, SyncSender<()>, Receiver<Vec<u32>>) {
        let (go, wait) = sync_channel::<()>(64);
        let (tell, seen) = channel();
        let open = move || {
            Ok(move |batch: &[&Sequence]| {
                wait.recv().map_err(|e| Error::Internal(e.to_string()))?;
                let ids: Vec<u32> = batch.iter().map(|s| s.ids[0]).collect();
                let _ = tell.send(ids.clone());
                Ok(ids.into_iter().map(|id| vec![id as f32]).collect())
            })
        };
        (Packer::start(open, &options(100), 8).expect("it starts"), go, seen)
    }

    #[test]
    fn waiting_groups_are_packed_as_far_as_they_fit() {
        let (packer, go, seen) = gated();
        let first = packer.submit(group(10, 1)).expect("taken");
        // The first batch has begun once the thread waits for its word; the rest must come after it.
        go.send(()).expect("heard");
        assert_eq!(seen.recv().expect("told"), [1]);
        assert_eq!(first.wait().expect("answered"), [[1.0]]);
        let blocked = packer.submit(group(100, 2)).expect("taken");
        let others: Vec<Pending> =
            [(60, 3), (40, 4), (1, 5)].map(|(t, id)| packer.submit(group(t, id)).expect("taken")).into();
        for _ in 0..3 {
            go.send(()).expect("heard");
        }
        assert_eq!(blocked.wait().expect("answered"), [[2.0]]);
        let answers: Vec<f32> = others.into_iter().map(|p| p.wait().expect("answered")[0][0]).collect();
        assert_eq!(answers, [3.0, 4.0, 5.0]);
        // However they met, no batch was over the budget: 60 + 40 + 1 is.
        drop(go);
        let batches: Vec<Vec<u32>> = seen.try_iter().collect();
        assert!(batches.iter().all(|b| *b != [3, 4, 5]), "{batches:?}");
    }

    #[test]
    fn who_went_away_is_not_computed_for() {
        let (packer, go, seen) = gated();
        let first = packer.submit(group(100, 1)).expect("taken");
        let gone = packer.submit(group(50, 2)).expect("taken");
        let place = Arc::downgrade(&gone.place);
        drop(gone);
        let stays = packer.submit(group(50, 3)).expect("taken");
        go.send(()).expect("heard");
        go.send(()).expect("heard");
        assert_eq!(first.wait().expect("answered"), [[1.0]]);
        assert_eq!(stays.wait().expect("answered"), [[3.0]]);
        drop(packer);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [vec![1], vec![3]]);
        assert!(place.upgrade().is_none(), "nothing is left of it");
    }

    #[test]
    fn a_full_queue_says_so_and_an_error_reaches_everyone_in_the_batch() {
        let (packer, go, _seen) = gated();
        let begun = packer.submit(group(100, 0)).expect("taken");
        let mut waiting = Vec::new();
        while let Some(pending) = packer.try_submit(group(10, 1)).expect("running") {
            waiting.push(pending);
        }
        // Of the eight places the first may still have had one.
        assert!(waiting.len() >= 7);
        // Without its other end the computation fails.
        drop(go);
        assert!(begun.wait().is_err());
        assert!(waiting.into_iter().all(|p| p.wait().is_err()));
    }

    #[test]
    fn a_panic_and_a_failed_start_are_errors() {
        let open = || Err::<fn(&[&Sequence]) -> Result<Logits>, _>(Error::Internal("no device".to_owned()));
        assert_eq!(
            Packer::start(open, &options(10), 1).expect_err("fails"),
            Error::Internal("no device".into())
        );
        let open = || {
            Ok(|batch: &[&Sequence]| -> Result<Logits> {
                assert!(batch.is_empty(), "the test's own panic");
                Ok(Vec::new())
            })
        };
        let packer = Packer::start(open, &options(10), 1).expect("it starts");
        for _ in 0..3 {
            let pending = packer.submit(group(1, 1)).expect("taken");
            assert!(matches!(pending.wait(), Err(Error::Internal(_))));
        }
    }

    #[test]
    fn pending_logits_are_a_future() {
        let open = || Ok(|batch: &[&Sequence]| Ok(vec![vec![0.5]; batch.len()]));
        let packer = Packer::start(open, &options(10), 1).expect("it starts");
        let two: Arc<[Sequence]> = Arc::from(vec![sequence(8, 1), sequence(8, 2)]);
        let logits = pollster::block_on(packer.submit(two).expect("taken"));
        assert_eq!(logits.expect("answered"), [[0.5], [0.5]]);
    }
}
