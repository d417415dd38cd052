//! Devices with a gate before them, that can be lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use dikast_core::backend::{Backend, Batch, Capabilities, MemoryBudget, Taps};
use dikast_core::checkpoint::Weights;
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::{Graph, Sizes};
use dikast_core::{Error, Result};
use dikast_server::ModelSource;

use crate::support::clef_files;

/// What a test does to the device.
#[derive(Clone, Default)]
pub(crate) struct Controls(Arc<Inner>);

#[derive(Default)]
struct Inner {
    shut: Mutex<bool>,
    opened: Condvar,
    arrived: AtomicUsize,
    losses: AtomicUsize,
    broken: AtomicUsize,
    opens: AtomicUsize,
    away: Mutex<bool>,
    returned: Condvar,
}

impl Controls {
    /// Batches wait at the gate from now on.
    pub(crate) fn shut(&self) {
        *self.0.shut.lock().expect("no panic inside") = true;
    }

    /// They go on.
    pub(crate) fn open(&self) {
        *self.0.shut.lock().expect("no panic inside") = false;
        self.0.opened.notify_all();
    }

    /// Batches that came to the gate so far.
    pub(crate) fn arrived(&self) -> usize {
        self.0.arrived.load(Ordering::SeqCst)
    }

    /// The next runs lose the device.
    pub(crate) fn lose(&self, times: usize) {
        self.0.losses.store(times, Ordering::SeqCst);
    }

    /// The device does not open again.
    pub(crate) fn break_for_good(&self) {
        self.0.broken.store(1, Ordering::SeqCst);
    }

    /// Devices that are opened from now on stay away.
    pub(crate) fn keep_away(&self) {
        *self.0.away.lock().expect("no panic inside") = true;
    }

    /// They come back.
    pub(crate) fn bring_back(&self) {
        *self.0.away.lock().expect("no panic inside") = false;
        self.0.returned.notify_all();
    }

    /// Times that it was opened.
    pub(crate) fn opens(&self) -> usize {
        self.0.opens.load(Ordering::SeqCst)
    }

    /// A model on a CPU device; a loss is told, nothing goes away.
    pub(crate) fn clef(&self) -> ModelSource {
        self.clef_on(1)
    }

    /// The same on several devices with one gate.
    pub(crate) fn clef_on(&self, devices: usize) -> ModelSource {
        self.source(devices, || Ok(CpuBackend::new()), |_| Err(lost()))
    }

    /// A model on devices that `open` opens and `lose` ends.
    pub(crate) fn source<B: Backend + 'static>(
        &self,
        devices: usize,
        open: fn() -> Result<B>,
        lose: fn(&B) -> Result<()>,
    ) -> ModelSource {
        let controls = self.clone();
        ModelSource::on_devices("clef-tiny", clef_files(), devices, move |_| {
            let away = controls.0.away.lock().expect("no panic inside");
            drop(controls.0.returned.wait_while(away, |away| *away).expect("no panic inside"));
            if controls.0.broken.load(Ordering::SeqCst) > 0 {
                return Err(lost());
            }
            controls.0.opens.fetch_add(1, Ordering::SeqCst);
            Ok(Device { inner: open()?, controls: controls.clone(), lose })
        })
    }
}

fn lost() -> Error {
    Error::DeviceLost { device: "test".into(), message: "gone".into() }
}

struct Device<B> {
    inner: B,
    controls: Controls,
    lose: fn(&B) -> Result<()>,
}

impl<B: Backend> Backend for Device<B> {
    type Resident = B::Resident;
    type Plan = B::Plan;
    type Snapshot = B::Snapshot;

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn budget(&self, graph: &Graph, weights: &Weights, bucket: &Sizes) -> Result<MemoryBudget> {
        self.inner.budget(graph, weights, bucket)
    }

    fn load(
        &self,
        graph: &Graph,
        weights: &Weights,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self::Resident> {
        self.inner.load(graph, weights, progress)
    }

    fn bucket(&self, sizes: &Sizes) -> Sizes {
        self.inner.bucket(sizes)
    }

    fn plan(&self, graph: &Graph, resident: &Self::Resident, bucket: &Sizes) -> Result<Self::Plan> {
        self.inner.plan(graph, resident, bucket)
    }

    async fn run(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
        taps: &mut Taps,
    ) -> Result<Vec<f32>> {
        let inner = &self.controls.0;
        inner.arrived.fetch_add(1, Ordering::SeqCst);
        let shut = inner.shut.lock().expect("no panic inside");
        drop(inner.opened.wait_while(shut, |shut| *shut).expect("no panic inside"));
        let take_one = |n: usize| n.checked_sub(1);
        if inner.losses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok() {
            (self.lose)(&self.inner)?;
        }
        self.inner.run(plan, resident, batch, taps).await
    }
}
