//! The thread that owns a device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use dikast_core::backend::Backend;
use dikast_core::engine::{Engine, Model, StateCacheUse};
use dikast_core::{Error, Result};

use super::{Queue, Taken};

/// What the outside learns of a worker.
pub(crate) trait Watch {
    /// A batch ran.
    fn ran(&self, batch: Ran);
    /// The device went away; nothing is served until [`Watch::recovered`].
    fn lost(&self, error: &Error);
    /// The device is back.
    fn recovered(&self);
}

/// A batch that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Requests in it.
    pub(crate) requests: usize,
    /// Token rows in it.
    pub(crate) tokens: usize,
    /// How long it took.
    pub(crate) took: Duration,
    /// What the engine's state cache holds, and did since it was opened.
    pub(crate) states: StateCacheUse,
}

/// How a model's sequences become logits on its device.
pub(crate) type Forward<B, M> = fn(&mut Engine<B, M>, &[&<M as Model>::Sequence]) -> Result<Vec<Vec<f32>>>;

/// Serves a queue on a device, the `device`th of its model, until the queue is closed and empty.
///
/// After [`Error::DeviceLost`] (a panic below counts as that) the device is opened again, once for each loss, and the
/// batch runs again: the requests notice nothing but the time.
///
/// # Errors
/// What the device failed with when it did not come back. Its batch is refused; so is everybody inside if no other device
/// serves.
pub(crate) fn serve<B: Backend, M: Model>(
    engine: &mut Engine<B, M>,
    forward: Forward<B, M>,
    device: usize,
    open: &dyn Fn() -> Result<B>,
    queue: &Queue<M::Sequence>,
    watch: &dyn Watch,
) -> Result<()> {
    queue.join();
    let outcome = until_closed(engine, forward, device, open, queue, watch);
    // Whatever the reason, callers may ask again elsewhere.
    let lost = outcome.as_ref().err().map(|error| Error::DeviceLost {
        device: engine.backend().capabilities().device.clone(),
        message: error.to_string(),
    });
    queue.leave(lost.as_ref());
    outcome
}

fn until_closed<B: Backend, M: Model>(
    engine: &mut Engine<B, M>,
    forward: Forward<B, M>,
    device: usize,
    open: &dyn Fn() -> Result<B>,
    queue: &Queue<M::Sequence>,
    watch: &dyn Watch,
) -> Result<()> {
    while let Some(batch) = queue.take() {
        let outcome = run(engine, forward, device, queue, watch, batch);
        let Err((lost, batch)) = outcome else { continue };
        watch.lost(&lost);
        if let Err(error) = reopen(engine, open, watch) {
            queue.fail(&batch, &lost);
            return Err(error);
        }
        if let Err((lost, batch)) = run(engine, forward, device, queue, watch, batch) {
            // The same requests lose the device again: they are refused, others may be luckier on a new one.
            watch.lost(&lost);
            queue.fail(&batch, &lost);
            reopen(engine, open, watch)?;
        }
    }
    Ok(())
}

fn reopen<B: Backend, M: Model>(
    engine: &mut Engine<B, M>,
    open: &dyn Fn() -> Result<B>,
    watch: &dyn Watch,
) -> Result<()> {
    engine.replace_backend(open()?)?;
    watch.recovered();
    Ok(())
}

/// Runs a batch and hands out its logits; gives it back if the device went away. Another failure of a batch of several
/// requests may be the fault of one: each runs alone then.
fn run<B: Backend, M: Model>(
    engine: &mut Engine<B, M>,
    forward: Forward<B, M>,
    device: usize,
    queue: &Queue<M::Sequence>,
    watch: &dyn Watch,
    batch: Taken<M::Sequence>,
) -> std::result::Result<(), (Error, Taken<M::Sequence>)> {
    let start = Instant::now();
    match logits(engine, forward, &batch) {
        Ok(logits) => {
            let took = start.elapsed();
            let states = engine.state_cache();
            watch.ran(Ran { requests: batch.requests(), tokens: batch.tokens(), took, states });
            queue.finish(&batch, device, took, logits);
            Ok(())
        }
        Err(lost @ Error::DeviceLost { .. }) => Err((lost, batch)),
        Err(error) if batch.requests() == 1 => {
            queue.fail(&batch, &error);
            Ok(())
        }
        Err(_) => {
            batch.apart().into_iter().try_for_each(|one| run(engine, forward, device, queue, watch, one))
        }
    }
}

fn logits<B: Backend, M: Model>(
    engine: &mut Engine<B, M>,
    forward: Forward<B, M>,
    batch: &Taken<M::Sequence>,
) -> Result<Vec<Vec<f32>>> {
    let sequences = batch.sequences();
    // What a panic leaves behind in the engine's device is thrown away with the device.
    let run = AssertUnwindSafe(|| forward(engine, &sequences));
    catch_unwind(run).unwrap_or_else(|_| {
        let message = "the worker panicked; see standard error".to_owned();
        Err(Error::DeviceLost { device: engine.backend().capabilities().device.clone(), message })
    })
}
