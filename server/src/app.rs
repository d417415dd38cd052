//! What all requests share.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Semaphore;

use crate::config::Config;
use crate::keys::Keys;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::model::Registry;
use crate::wire::failure::Failure;

/// What all requests share.
pub(crate) struct App {
    pub(crate) config: Arc<Config>,
    pub(crate) models: Registry,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) keys: Keys,
    pub(crate) log: Log,
    /// One permit a core for preparing requests.
    pub(crate) preparing: Semaphore,
    /// One permit a KiB of bodies that are being read or prepared.
    pub(crate) body_room: Arc<Semaphore>,
    /// Seconds since 1970 at the start.
    pub(crate) since: u64,
    draining: AtomicBool,
    in_flight: Arc<AtomicUsize>,
    ids: (RandomState, AtomicU64),
}

impl App {
    pub(crate) fn new(config: Arc<Config>, models: Registry, metrics: Arc<Metrics>) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            keys: Keys::new(&config.keys, config.rate),
            log: Log::new(config.log),
            preparing: Semaphore::new(cores),
            body_room: Arc::new(Semaphore::new(
                (config.all_body_bytes >> 10).clamp(1, Semaphore::MAX_PERMITS),
            )),
            since: now().as_secs(),
            draining: AtomicBool::new(false),
            in_flight: Arc::new(AtomicUsize::new(0)),
            ids: (RandomState::new(), AtomicU64::new(0)),
            config,
            models,
            metrics,
        }
    }

    /// A new request's id. The seed differs from process to process.
    pub(crate) fn new_id(&self) -> String {
        let (seed, counter) = &self.ids;
        format!("{:016x}", seed.hash_one(counter.fetch_add(1, Ordering::Relaxed)))
    }

    /// No new work is taken from now on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Counts a request as running until the guard is dropped; `Err` while draining.
    pub(crate) fn enter(&self) -> Result<InFlight, Failure> {
        // Counted first: a server that ends waits for whoever got in.
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let guard = InFlight(self.in_flight.clone());
        if self.is_draining() {
            return Err(draining());
        }
        Ok(guard)
    }

    /// Requests that are running.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// It takes work: every model answers, nothing drains, and no queue is full.
    pub(crate) fn is_ready(&self) -> bool {
        let full = || self.models.slots().iter().filter_map(|s| s.loaded()).any(|loaded| loaded.is_full());
        !self.is_draining() && self.models.all_ready() && !full()
    }
}

/// The refusal of a server that ends.
pub(crate) fn draining() -> Failure {
    Failure::overloaded("draining", "this server is ending", Duration::from_secs(1))
}

/// A request that is running.
pub(crate) struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Time since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
