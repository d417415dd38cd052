//! [`WgpuBackend`]: the trait, and the profile.

use std::sync::Arc;

#[cfg(not(target_arch = "wasm32"))]
use dikast_core::backend::Ceilings;
use dikast_core::backend::{Backend, Batch, Capabilities, MemoryBudget, StepTime, Taps};
use dikast_core::checkpoint::Weights;
use dikast_core::graph::{Graph, Sizes, TensorId};
use dikast_core::{Error, Result};

use crate::bucket;
use crate::device::Device;
use crate::format::Element;
use crate::inputs::Inputs;
use crate::layout::{Layout, Unrounded, tensor_bytes};
use crate::options::DeviceOptions;
use crate::pipelines::Pipelines;
use crate::placement::{Placement, StorageLimits};
use crate::plan::{WgpuPlan, activation_bytes, unpack};
use crate::recipe::Grid;
use crate::resident::WgpuResident;

/// One ordinary request. Its pipelines are built when a model is loaded; those of much larger batches when one comes.
const USUAL: Sizes = Sizes {
    tokens: 128,
    sequences: 1,
    labels: 8,
    text_tokens: 128,
    questions: 2,
    option_tokens: 64,
    ..Sizes::NONE
};

/// A GPU reached through WebGPU: Vulkan, Metal or DirectX 12 natively, the browser's own in a page.
#[derive(Debug)]
pub struct WgpuBackend {
    pub(crate) device: Device,
    pipelines: Arc<Pipelines>,
    capabilities: Capabilities,
}

impl WgpuBackend {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when there is no such adapter or it refuses the device.
    pub async fn open(options: &DeviceOptions) -> Result<Self> {
        Ok(Self::on(Device::open(options).await?, Arc::default()))
    }

    /// Another backend on the same device with the same pipelines, for weights of its own. Precision, matrices, memory, timeout and loop are as
    /// `options` say, as far as the device was opened for them; adapter and limits stay as they are.
    pub fn again(&self, options: &DeviceOptions) -> Self {
        // Faulty shaders are nobody else's.
        let own = options.planted.is_some() || self.device.planted.is_some();
        let pipelines = if own { Arc::default() } else { Arc::clone(&self.pipelines) };
        Self::on(self.device.again(options), pipelines)
    }

    fn on(device: Device, pipelines: Arc<Pipelines>) -> Self {
        let capabilities = capabilities(&device);
        Self { device, pipelines, capabilities }
    }

    /// Whether `ProductChoice::Auto` takes the loop for few rows here. Where it does not, that loop need not give the same
    /// bits as the others: see [`crate::ProductChoice`].
    pub fn mixes_loops(&self) -> bool {
        self.device.software
    }

    /// Whether products multiply in f16 where the operands fit.
    pub fn uses_f16(&self) -> bool {
        self.device.f16
    }

    /// Whether products of E4M3 operands run on cooperative matrices where their width allows.
    pub fn uses_matrices(&self) -> bool {
        self.device.cooperative
    }

    /// Whether rows are multiplied by INT8 weights without being rounded to codes, where a model's quantizers are `standard`.
    pub fn multiplies_weights_alone(&self) -> bool {
        self.device.weight_only().is_some()
    }

    /// Pipelines compiled so far.
    pub fn pipelines(&self) -> usize {
        self.pipelines.len()
    }

    /// Ends the device, as a driver reset would: every later call returns [`Error::DeviceLost`].
    pub fn destroy(&self) {
        self.device.raw.destroy();
        // The callback comes with the next poll.
        let _ = self.device.wait();
    }

    /// Waits until the device has done all that it was given. A browser reports the errors of an upload only later;
    /// this is where they come up. `needed` is named when memory ran out.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::DeviceLost`], [`Error::Internal`] for what the device refused.
    pub async fn settled(&self, needed: u64) -> Result<()> {
        self.device.settled(needed).await
    }

    /// Runs a batch with a timestamp around every step.
    async fn timed(
        &self,
        plan: &mut WgpuPlan,
        resident: &WgpuResident,
        batch: &Batch,
    ) -> Result<Vec<StepTime>> {
        if !self.device.timestamps {
            return Err(Error::Unsupported {
                device: self.device.adapter.name.clone(),
                need: "timestamp queries".to_owned(),
            });
        }
        let grids = self.prepare(plan, resident, batch)?;
        let (device, steps) = (&self.device, plan.dispatches.len());
        // A query set holds 4096 queries at most, a step takes two.
        let sets = steps.div_ceil(2048);
        let bytes = steps as u64 * 16;
        let (encoder, readback) = device.guarded(bytes, || {
            let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
            let resolved = device.buffer("timestamps", bytes, usage)?;
            let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
            let readback = device.buffer("timestamps read", bytes, usage)?;
            let mut encoder = device.raw.create_command_encoder(&Default::default());
            for set in 0..sets {
                let first = set * 2048;
                let count = (steps - first).min(2048);
                let queries = device.raw.create_query_set(&wgpu::QuerySetDescriptor {
                    label: Some("steps"),
                    ty: wgpu::QueryType::Timestamp,
                    count: 2 * count as u32,
                });
                for (step, grids) in grids.iter().enumerate().skip(first).take(count) {
                    let at = 2 * (step - first) as u32;
                    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                        label: None,
                        timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                            query_set: &queries,
                            beginning_of_pass_write_index: Some(at),
                            end_of_pass_write_index: Some(at + 1),
                        }),
                    });
                    dispatch(&mut pass, plan, step, grids);
                }
                encoder.resolve_query_set(&queries, 0..2 * count as u32, &resolved, first as u64 * 16);
            }
            encoder.copy_buffer_to_buffer(&resolved, 0, &readback, 0, bytes);
            Ok((encoder, readback))
        })?;
        self.submit(plan, encoder)?;
        let period = f64::from(device.queue.get_timestamp_period());
        device
            .read(&readback, bytes, |bytes| {
                let ticks: Vec<u64> = bytes
                    .chunks_exact(8)
                    .map(|b| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
                    .collect();
                let nanos = |t: &[u64]| (t[1].saturating_sub(t[0]) as f64 * period) as u64;
                let times = ticks.chunks_exact(2).enumerate();
                times.map(|(step, t)| StepTime { step, nanos: nanos(t) }).collect()
            })
            .await
    }

    /// Checks a batch, writes its inputs to the staging memory and works out every dispatch's size.
    fn prepare(
        &self,
        plan: &mut WgpuPlan,
        resident: &WgpuResident,
        batch: &Batch,
    ) -> Result<Vec<Vec<[u32; 3]>>> {
        self.device.check()?;
        if !batch.sizes.fits(&plan.capacity) {
            return Err(Error::Internal(format!(
                "a batch of {:?} does not fit the bucket {:?}",
                batch.sizes, plan.capacity
            )));
        }
        let filled = plan.inputs.fill(&plan.graph, resident, batch, &mut plan.staging)?;
        let limit = self.device.limits.max_compute_workgroups_per_dimension;
        let size = |grid: Grid| grid.size(&batch.sizes, &filled.tasks, limit);
        let grids = plan
            .dispatches
            .iter()
            .map(|step| step.iter().map(|d| size(d.grid)).collect())
            .collect::<Result<_>>()?;
        self.device.queue.write_buffer(&plan.input_buffer, 0, &plan.staging[..filled.used]);
        Ok(grids)
    }

    fn submit(&self, plan: &WgpuPlan, encoder: wgpu::CommandEncoder) -> Result<()> {
        self.device.guarded(plan.layout.bytes(), || {
            self.device.queue.submit([encoder.finish()]);
            Ok(())
        })
    }

    async fn forward(
        &self,
        plan: &mut WgpuPlan,
        resident: &WgpuResident,
        batch: &Batch,
        taps: &mut Taps,
    ) -> Result<Vec<f32>> {
        let device = &self.device;
        if plan.readback_in_use {
            // A run was dropped before its result was read.
            plan.readback.unmap();
        }
        let grids = self.prepare(plan, resident, batch)?;
        let tapped = tapped(plan, batch, taps)?;
        let output = plan.graph.output();
        let bytes = tensor_bytes(&plan.graph, output, &batch.sizes, &plan.unrounded);
        let place = plan.place(output)?;

        let (encoder, tap_buffer) = device.guarded(plan.layout.bytes() + tapped.bytes, || {
            let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
            let tap_buffer =
                if tapped.bytes == 0 { None } else { Some(device.buffer("taps", tapped.bytes, usage)?) };
            let mut encoder = device.raw.create_command_encoder(&Default::default());
            let mut pass = None;
            for (step, grids) in grids.iter().enumerate() {
                let pass_now = pass
                    .get_or_insert_with(|| encoder.begin_compute_pass(&Default::default()).forget_lifetime());
                dispatch(pass_now, plan, step, grids);
                let Some(buffer) = &tap_buffer else { continue };
                // A tap is copied right after its step, before a later one takes its memory.
                for tap in tapped.taps.iter().filter(|t| t.step == step) {
                    pass = None;
                    let place = plan.place(tap.id)?;
                    encoder.copy_buffer_to_buffer(
                        &plan.banks[place.bank],
                        place.offset,
                        buffer,
                        tap.offset,
                        tap.bytes,
                    );
                }
            }
            drop(pass);
            encoder.copy_buffer_to_buffer(&plan.banks[place.bank], place.offset, &plan.readback, 0, bytes);
            Ok((encoder, tap_buffer))
        })?;
        self.submit(plan, encoder)?;

        plan.readback_in_use = true;
        let unpack = |id, bytes: &[u8]| unpack(&plan.graph, id, &batch.sizes, &plan.unrounded, bytes);
        let unpacked = device.read(&plan.readback, bytes, |b| unpack(output, b)).await?;
        plan.readback_in_use = false;
        if let Some(buffer) = tap_buffer {
            device
                .read(&buffer, tapped.bytes, |all| {
                    for tap in &tapped.taps {
                        let bytes = &all[tap.offset as usize..(tap.offset + tap.bytes) as usize];
                        taps.put(tap.id, unpack(tap.id, bytes));
                    }
                })
                .await?;
        }
        Ok(unpacked)
    }
}

impl Backend for WgpuBackend {
    type Resident = WgpuResident;
    type Plan = WgpuPlan;
    type Snapshot = ();

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn budget(&self, graph: &Graph, weights: &Weights, bucket: &Sizes) -> Result<MemoryBudget> {
        let storage = StorageLimits::of(&self.device.limits);
        let placement = Placement::new(graph, weights, storage, &self.device.adapter.name)?;
        let unrounded = Unrounded::new(graph, self.device.weight_only());
        let layout = Layout::new(graph, bucket, storage.align, &unrounded);
        let inputs = Inputs::new(graph, &placement, bucket, storage.align)?;
        Ok(MemoryBudget {
            device_weights: placement.device_bytes(),
            host_tables: placement.host,
            activations: activation_bytes(graph, &layout, &inputs),
        })
    }

    fn load(
        &self,
        graph: &Graph,
        weights: &Weights,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<WgpuResident> {
        let resident = WgpuResident::upload(&self.device, graph, weights, progress)?;
        // Only for the pipelines. Whatever fails here fails again, and is reported, when a plan is wanted.
        drop(self.plan(graph, &resident, &self.bucket(&USUAL)));
        Ok(resident)
    }

    fn plan(&self, graph: &Graph, resident: &WgpuResident, bucket: &Sizes) -> Result<WgpuPlan> {
        WgpuPlan::new(&self.device, &self.pipelines, graph, resident, bucket)
    }

    fn bucket(&self, sizes: &Sizes) -> Sizes {
        bucket::bucket(sizes)
    }

    async fn run(
        &self,
        plan: &mut WgpuPlan,
        resident: &WgpuResident,
        batch: &Batch,
        taps: &mut Taps,
    ) -> Result<Vec<f32>> {
        self.forward(plan, resident, batch, taps).await
    }

    /// Also [`Error::Unsupported`] when the device cannot time passes.
    async fn profile(
        &self,
        plan: &mut WgpuPlan,
        resident: &WgpuResident,
        batch: &Batch,
    ) -> Result<Vec<StepTime>> {
        self.timed(plan, resident, batch).await
    }

    #[cfg(not(target_arch = "wasm32"))]
    async fn ceilings(&self) -> Result<Ceilings> {
        crate::ceilings::measure(self).await
    }
}

/// Records one step.
fn dispatch(pass: &mut wgpu::ComputePass<'_>, plan: &WgpuPlan, step: usize, grids: &[[u32; 3]]) {
    for (dispatch, &[x, y, z]) in plan.dispatches[step].iter().zip(grids) {
        if x > 0 && y > 0 && z > 0 {
            pass.set_pipeline(&dispatch.pipeline);
            pass.set_bind_group(0, &dispatch.bindings, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
    }
}

/// Tensors to read back beside the result.
#[derive(Debug, Default)]
struct Tapped {
    taps: Vec<Tap>,
    bytes: u64,
}

#[derive(Debug)]
struct Tap {
    id: TensorId,
    step: usize,
    offset: u64,
    bytes: u64,
}

fn tapped(plan: &WgpuPlan, batch: &Batch, taps: &Taps) -> Result<Tapped> {
    let mut tapped = Tapped::default();
    for &id in taps.wanted() {
        let written = plan.graph.steps().iter().position(|s| s.outputs().contains(&id));
        let Some(step) = written else {
            let name = &plan.graph.tensor(id).name;
            return Err(Error::invalid("tap", format!("{name} is an input, not a step's output")));
        };
        let bytes = tensor_bytes(&plan.graph, id, &batch.sizes, &plan.unrounded);
        tapped.taps.push(Tap { id, step, offset: tapped.bytes, bytes });
        tapped.bytes += bytes;
    }
    Ok(tapped)
}

/// Which path products with INT8 weights take, and why.
fn int8_products(device: &Device) -> &'static str {
    match (device.weight_only(), device.packed_products) {
        (Some(Element::F16), _) => "weights alone, rows in f16 (packed codes in mode exact)",
        (Some(Element::F32), _) => "weights alone, rows in f32 (packed codes in mode exact)",
        (None, true) => "packed codes, by the hardware",
        (None, false) => "packed codes",
    }
}

fn capabilities(device: &Device) -> Capabilities {
    let limits = &device.limits;
    let detail = |name: &str, value: String| (name.to_owned(), value);
    Capabilities {
        backend: "wgpu".to_owned(),
        device: device.adapter.name.clone(),
        memory: device.memory,
        details: vec![
            detail("api", device.adapter.api.clone()),
            detail("kind", device.adapter.kind.clone()),
            detail("driver", device.adapter.driver.clone()),
            detail("products", if device.f16 { "f16" } else { "f32" }.to_owned()),
            detail("cooperative matrices", device.cooperative.to_string()),
            detail("INT8 products", int8_products(device).to_owned()),
            detail("shader-f16", device.adapter.f16.to_string()),
            detail("subgroups", device.subgroups.to_string()),
            detail("timestamp queries", device.timestamps.to_string()),
            detail("buffer bytes", limits.max_buffer_size.to_string()),
            detail("storage binding bytes", limits.max_storage_buffer_binding_size.to_string()),
            detail("workgroup memory bytes", limits.max_compute_workgroup_storage_size.to_string()),
            detail("workgroup invocations", limits.max_compute_invocations_per_workgroup.to_string()),
        ],
    }
}
