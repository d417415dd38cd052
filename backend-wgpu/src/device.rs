//! One open device: its limits, its faults, uploads and readbacks.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dikast_core::backend::Planted;
use dikast_core::{Error, Result};

use crate::adapter::{self, AdapterSummary};
use crate::format::Element;
use crate::options::{DeviceOptions, Int8Products, Matrices, Precision, ProductChoice};

/// Bytes handed to the queue before it is flushed: what an upload may hold in staging memory.
const UPLOAD_WINDOW: u64 = 64 << 20;

/// An open device. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) raw: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) adapter: AdapterSummary,
    pub(crate) limits: wgpu::Limits,
    /// Whether products may multiply in f16.
    pub(crate) f16: bool,
    /// Whether products may run on cooperative matrices.
    pub(crate) cooperative: bool,
    /// Whether passes can be timed.
    pub(crate) timestamps: bool,
    pub(crate) subgroups: bool,
    /// A processor, not a GPU.
    pub(crate) software: bool,
    pub(crate) memory: Option<u64>,
    pub(crate) product: ProductChoice,
    int8: Int8Products,
    /// Whether the hardware multiplies packed INT8 codes by itself, as far as is known.
    pub(crate) packed_products: bool,
    pub(crate) planted: Option<Planted>,
    timeout: Duration,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Debug, Default)]
struct Faults {
    /// Why the device was lost.
    lost: Option<String>,
    /// The first error that no scope caught.
    uncaught: Option<Fault>,
}

#[derive(Debug)]
enum Fault {
    OutOfMemory,
    Other(String),
}

impl Device {
    pub(crate) async fn open(options: &DeviceOptions) -> Result<Self> {
        let adapter = adapter::choose(&options.adapter).await?;
        let (summary, info) = (adapter::summary(&adapter), adapter.get_info());
        let limits = limits(&adapter, options);
        let wanted = wgpu::Features::SHADER_F16 | wgpu::Features::TIMESTAMP_QUERY;
        let mut features = adapter.features() & wanted;
        let f16 = features.contains(wgpu::Features::SHADER_F16) && options.precision != Precision::F32;
        let cooperative = f16 && options.matrices != Matrices::Off && matrices(&adapter);
        features.set(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX, cooperative);
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("dikast"),
            required_features: features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            experimental_features: if cooperative { experimental() } else { Default::default() },
            ..Default::default()
        };
        let (raw, queue) = adapter.request_device(&descriptor).await.map_err(|e| Error::Unsupported {
            device: summary.name.clone(),
            need: format!("a device with the limits {limits:?}: {e}"),
        })?;
        let faults = Arc::new(Mutex::new(Faults::default()));
        let sink = Arc::clone(&faults);
        raw.set_device_lost_callback(move |reason, message| {
            let text = if message.is_empty() { format!("{reason:?}") } else { message };
            lock(&sink).lost.get_or_insert(text);
        });
        let sink = Arc::clone(&faults);
        raw.on_uncaptured_error(Arc::new(move |error| {
            lock(&sink).uncaught.get_or_insert(fault(error));
        }));
        Ok(Self {
            f16,
            cooperative,
            timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
            subgroups: adapter.features().contains(wgpu::Features::SUBGROUP),
            software: info.device_type == wgpu::DeviceType::Cpu,
            adapter: summary,
            limits,
            memory: options.memory,
            product: options.product,
            int8: options.int8,
            packed_products: adapter::packed_products(&adapter),
            planted: options.planted.clone(),
            timeout: options.timeout,
            raw,
            queue,
            faults,
        })
    }

    /// The same device for other options: those that say nothing of the adapter and the limits.
    pub(crate) fn again(&self, options: &DeviceOptions) -> Self {
        let has = |feature| self.raw.features().contains(feature);
        let f16 = has(wgpu::Features::SHADER_F16) && options.precision != Precision::F32;
        let matrices =
            has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) && options.matrices != Matrices::Off;
        Self {
            f16,
            cooperative: f16 && matrices,
            memory: options.memory,
            product: options.product,
            int8: options.int8,
            planted: options.planted.clone(),
            timeout: options.timeout,
            ..self.clone()
        }
    }

    /// The type in which rows are multiplied by INT8 weights; `None` where they become codes themselves.
    pub(crate) fn weight_only(&self) -> Option<Element> {
        match self.int8 {
            Int8Products::Packed => None,
            Int8Products::Auto if self.packed_products => None,
            Int8Products::Auto | Int8Products::WeightOnly => {
                Some(if self.f16 { Element::F16 } else { Element::F32 })
            }
        }
    }

    /// Whether the device was lost, or an error came up outside of any scope.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_for(0)
    }

    /// As [`Device::check`], for work that needs so many bytes.
    fn check_for(&self, needed: u64) -> Result<()> {
        let mut faults = lock(&self.faults);
        if let Some(message) = &faults.lost {
            return Err(self.lost(message.clone()));
        }
        match faults.uncaught.take() {
            Some(fault) => Err(self.error(fault, needed)),
            None => Ok(()),
        }
    }

    /// Runs `work`, turning the errors that it makes on the device into one of ours. `needed` bytes are reported when
    /// memory runs out. In the browser the errors arrive later and [`Device::check`] reports them.
    pub(crate) fn guarded<T>(&self, needed: u64, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check()?;
        if cfg!(target_arch = "wasm32") {
            let result = work()?;
            return self.check_for(needed).map(|()| result);
        }
        let scopes =
            [wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory]
                .map(|filter| self.raw.push_error_scope(filter));
        let result = work();
        let mut caught = None;
        // Innermost first.
        for scope in scopes.into_iter().rev() {
            if let Some(Some(error)) = now(scope.pop()) {
                caught.get_or_insert(error);
            }
        }
        self.check()?;
        match caught {
            Some(error) => Err(self.error(fault(error), needed)),
            None => result,
        }
    }

    /// A buffer, once it is known that the device can have one as large.
    pub(crate) fn buffer(&self, label: &str, size: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
        let size = size.max(256).next_multiple_of(4);
        if size > self.limits.max_buffer_size {
            return Err(Error::TooLarge {
                what: format!("bytes of the buffer {label}"),
                limit: self.limits.max_buffer_size,
                actual: size,
            });
        }
        let descriptor =
            wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        Ok(self.raw.create_buffer(&descriptor))
    }

    /// Waits until everything submitted so far is done. Does nothing in the browser.
    pub(crate) fn wait(&self) -> Result<()> {
        if cfg!(target_arch = "wasm32") {
            return Ok(());
        }
        let poll = wgpu::PollType::Wait { submission_index: None, timeout: Some(self.timeout) };
        // wgpu panics in `poll` when the driver reports a lost device.
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.raw.poll(poll)));
        self.check()?;
        match polled {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(wgpu::PollError::Timeout)) => {
                Err(self.lost(format!("no answer within {:?}", self.timeout)))
            }
            Ok(Err(e)) => Err(Error::Internal(format!("{}: {e}", self.adapter.name))),
            Err(_) => Err(self.lost("the driver failed while waiting".to_owned())),
        }
    }

    /// Waits, also in the browser, until everything submitted so far is done, and reports what became of it.
    pub(crate) async fn settled(&self, needed: u64) -> Result<()> {
        let (done, settled) = signal();
        self.queue.on_submitted_work_done(move || done.send(true));
        self.wait()?;
        settled.await;
        self.check_for(needed)
    }

    /// The first `size` bytes of a buffer with `MAP_READ`, once the work submitted before is done.
    pub(crate) async fn read<T>(
        &self,
        buffer: &wgpu::Buffer,
        size: u64,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        if size == 0 {
            self.wait()?;
            return Ok(take(&[]));
        }
        let slice = buffer.slice(..size);
        let (done, mapped) = signal();
        slice.map_async(wgpu::MapMode::Read, move |result| done.send(result.is_ok()));
        let waited = self.wait();
        if let Err(error) = waited {
            buffer.unmap();
            return Err(error);
        }
        let mapped = mapped.await;
        self.check()?;
        if !mapped {
            return Err(self.lost("a result could not be mapped".to_owned()));
        }
        let view = slice.get_mapped_range().map_err(|e| Error::Internal(format!("mapped range: {e}")))?;
        let taken = take(&view);
        drop(view);
        buffer.unmap();
        Ok(taken)
    }

    fn lost(&self, message: String) -> Error {
        Error::DeviceLost { device: self.adapter.name.clone(), message }
    }

    fn error(&self, fault: Fault, needed: u64) -> Error {
        match fault {
            Fault::OutOfMemory => Error::OutOfMemory {
                device: self.adapter.name.clone(),
                needed,
                available: self.memory.unwrap_or(0),
            },
            Fault::Other(message) => Error::Internal(format!("{}: {message}", self.adapter.name)),
        }
    }
}

/// Counts bytes handed to the queue and flushes it now and then.
#[derive(Debug)]
pub(crate) struct Upload<'a> {
    device: &'a Device,
    pending: u64,
}

impl<'a> Upload<'a> {
    pub(crate) fn new(device: &'a Device) -> Self {
        Self { device, pending: 0 }
    }

    /// `bytes` must be a multiple of four long.
    pub(crate) fn write(&mut self, buffer: &wgpu::Buffer, offset: u64, bytes: &[u8]) -> Result<()> {
        self.device.queue.write_buffer(buffer, offset, bytes);
        self.pending += bytes.len() as u64;
        if self.pending >= UPLOAD_WINDOW { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.pending = 0;
        self.device.queue.submit([]);
        self.device.wait()
    }
}

/// WebGPU's defaults, raised to what the adapter has where that helps, and lowered where the options say so.
fn limits(adapter: &wgpu::Adapter, options: &DeviceOptions) -> wgpu::Limits {
    let (has, base) = (adapter.limits(), wgpu::Limits::default());
    let over = &options.limits;
    let storage = has.max_compute_workgroup_storage_size;
    let invocations = has.max_compute_invocations_per_workgroup.min(1024);
    wgpu::Limits {
        max_buffer_size: over.buffer.map_or(has.max_buffer_size, |v| v.min(has.max_buffer_size)),
        max_storage_buffer_binding_size: over
            .binding
            .map_or(has.max_storage_buffer_binding_size, |v| v.min(has.max_storage_buffer_binding_size)),
        max_compute_workgroups_per_dimension: over
            .workgroups
            .map_or(base.max_compute_workgroups_per_dimension, |v| {
                v.min(base.max_compute_workgroups_per_dimension)
            })
            .min(has.max_compute_workgroups_per_dimension),
        max_compute_workgroup_storage_size: over.workgroup_memory.map_or(storage, |v| v.min(storage)),
        max_compute_invocations_per_workgroup: over.invocations.map_or(invocations, |v| v.min(invocations)),
        max_compute_workgroup_size_x: has.max_compute_workgroup_size_x.min(256),
        max_compute_workgroup_size_y: has.max_compute_workgroup_size_y.min(256),
        max_compute_workgroup_size_z: has.max_compute_workgroup_size_z.min(64),
        min_storage_buffer_offset_alignment: has.min_storage_buffer_offset_alignment,
        min_uniform_buffer_offset_alignment: has.min_uniform_buffer_offset_alignment,
        max_storage_buffers_per_shader_stage: has
            .max_storage_buffers_per_shader_stage
            .min(base.max_storage_buffers_per_shader_stage),
        ..base.or_worse_values_from(&has)
    }
}

/// Whether the adapter multiplies 16×16 matrices of f16 into f32 in subgroups of 32, which is what `coop.wgsl` is made for.
fn matrices(adapter: &wgpu::Adapter) -> bool {
    use wgpu::CooperativeScalarType::{F16, F32};

    let info = adapter.get_info();
    let fits = |p: &wgpu::CooperativeMatrixProperties| {
        (p.m_size, p.n_size, p.k_size, p.ab_type, p.cr_type) == (16, 16, 16, F16, F32)
    };
    adapter.features().contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
        && (info.subgroup_min_size, info.subgroup_max_size) == (32, 32)
        && adapter.cooperative_matrix_properties().iter().any(fits)
}

#[allow(unsafe_code, reason = "wgpu asks for it before it grants an experimental feature")]
fn experimental() -> wgpu::ExperimentalFeatures {
    // SAFETY: the one experimental feature that is asked for is cooperative matrices. `coop.wgsl` keeps to what
    // the adapter says it supports (see `matrices`), uses them in uniform control flow alone, and loads and
    // stores inside its own workgroup memory.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

fn fault(error: wgpu::Error) -> Fault {
    match error {
        wgpu::Error::OutOfMemory { .. } => Fault::OutOfMemory,
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            Fault::Other(description)
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of a future that is ready: native error scopes always are, the browser's never.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    let future = std::pin::pin!(future);
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// One value handed from a callback to a future.
#[derive(Debug, Default)]
struct Slot {
    value: Option<bool>,
    waker: Option<Waker>,
}

struct Sender(Arc<Mutex<Slot>>);

struct Receiver(Arc<Mutex<Slot>>);

fn signal() -> (Sender, Receiver) {
    let slot = Arc::new(Mutex::new(Slot::default()));
    (Sender(Arc::clone(&slot)), Receiver(slot))
}

impl Sender {
    fn send(&self, value: bool) {
        let mut slot = lock(&self.0);
        slot.value = Some(value);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Sender {
    /// A callback dropped without being called says no.
    fn drop(&mut self) {
        if lock(&self.0).value.is_none() {
            self.send(false);
        }
    }
}

impl Future for Receiver {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let mut slot = lock(&self.0);
        match slot.value {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
