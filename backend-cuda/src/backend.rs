//! [`CudaBackend`]: load, plan, run.

use std::future::{Future, ready};
use std::path::PathBuf;
use std::sync::Arc;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, CudaStream};
use dikast_core::backend::{
    Backend, Batch, Capabilities, Ceilings, MemoryBudget, Planted, Prefix, StepTime, Taps,
};
use dikast_core::checkpoint::Weights;
use dikast_core::graph::{DType, Graph, Sizes, Step, TensorId};
use dikast_core::numerics::e4m3;
use dikast_core::{Error, Result};
use half::{bf16, f16};

use crate::compile::{Kernels, default_cache};
use crate::device::{Device, Target};
use crate::forms::Form;
use crate::gemm::LargeTiles;
use crate::inputs::{InputLayout, Kept};
use crate::layout::{self, Stored};
use crate::memory::{DeviceMemory, PinnedMemory};
use crate::plan::{Builder, Prefetch, Program, arena_bytes, arena_bytes_prefix};
use crate::prefix::{CudaSnapshot, Pieces, UNIT};
use crate::resident::CudaResident;
use crate::{bucket, sources, split, support};

/// Labels and sequences of the largest bucket for which the shared arena has room.
const ARENA_COUNTS: usize = 512;
/// The shared arena takes at most this part of the weights' bytes,
const ARENA_SHARE: usize = 24;
/// or so many bytes where that is more.
const LEAST_ARENA: usize = 256 << 20;

/// How a device is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaOptions {
    /// Which device.
    pub device: usize,
    /// Most bytes of device memory that the backend allocates; the driver's context, some hundred megabytes, comes on top.
    pub memory_budget: Option<u64>,
    /// Most packed tokens of a captured forward; longer batches run the same launches one by one.
    pub captured_tokens: usize,
    /// Folder for kernels compiled at run time; `None` compiles them in every process.
    pub cache: Option<PathBuf>,
    /// Takes kernels embedded in the program where there are some; else all are compiled at run time.
    pub embedded: bool,
    /// Uses the kernels for any chip even where there are better ones: to test them.
    pub portable: bool,
    /// Takes the kernel of few tokens for FP8 products where it should be faster; results are the same without.
    pub few: bool,
    /// How results of large FP8 products leave, where there is a choice; results are the same.
    pub large_tiles: LargeTiles,
    /// Takes warpgroup products for attention over binary16 rows where the chip has them.
    pub warpgroups: bool,
    /// Lets kernels start while their predecessors end (programmatic dependent launch), where the chip can.
    pub early: bool,
    /// How far ahead of the products their weights are asked for, in small buckets and where the chip can.
    pub prefetch: Prefetch,
    /// Keeps rows between the heads' products as two bfloat16 planes, and lets neighbouring steps share a launch, where the chip
    /// and the weights allow it.
    pub split_rows: bool,
    /// Fills activations with NaN before every run, so that a value nobody wrote shows: for tests.
    pub poison: bool,
    /// Leaves the weights that only pictures and videos need off the device until the first of these comes.
    pub lazy_media: bool,
    /// A fault in a kernel, which is then compiled in this process as all others are: for tests.
    pub planted: Option<Planted>,
}

impl Default for CudaOptions {
    fn default() -> Self {
        Self {
            device: 0,
            memory_budget: None,
            captured_tokens: 4096,
            cache: default_cache(),
            embedded: true,
            portable: false,
            few: true,
            large_tiles: LargeTiles::default(),
            warpgroups: true,
            early: true,
            prefetch: Prefetch::default(),
            split_rows: true,
            poison: false,
            lazy_media: false,
            planted: None,
        }
    }
}

/// An NVIDIA GPU. Belongs to the thread that opened it.
#[derive(Debug)]
pub struct CudaBackend {
    pub(crate) device: Arc<Device>,
    pub(crate) kernels: Kernels,
    capabilities: Capabilities,
    pub(crate) options: CudaOptions,
    preferred: Vec<(usize, usize, &'static str)>,
}

/// A graph ready for every batch that fits a bucket.
pub struct CudaPlan {
    /// The whole forward as one launch; before the memory that it uses, so that it goes first.
    pub(crate) captured: Option<CudaGraph>,
    pub(crate) program: Program,
    pub(crate) graph: Graph,
    pub(crate) bucket: Sizes,
    prefix: Prefix,
    inputs: InputLayout,
    /// Inputs on the device, and in page-locked memory.
    block: DeviceMemory,
    pinned: PinnedMemory,
    /// The last kernel writes here.
    output: PinnedMemory,
    pub(crate) arena: Arc<DeviceMemory>,
    _weights: [Option<Arc<DeviceMemory>>; 2],
}

impl std::fmt::Debug for CudaPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaPlan")
            .field("graph", &self.graph.name())
            .field("bucket", &self.bucket)
            .field("launches", &self.program.launches.len())
            .field("captured", &self.captured.is_some())
            .finish_non_exhaustive()
    }
}

impl CudaPlan {
    /// Bytes on the device beside the model's own.
    pub(crate) fn own_bytes(&self, resident: &CudaResident) -> usize {
        let arena = if Arc::ptr_eq(&self.arena, &resident.arena) { 0 } else { self.arena.bytes() };
        self.block.bytes() + arena
    }
}

impl CudaBackend {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when there is no NVIDIA driver, a too old one, no device or a too old one.
    pub fn open(options: CudaOptions) -> Result<Self> {
        let device = Arc::new(Device::open(options.device, options.memory_budget)?);
        let mut kernels = Kernels::new(Arc::clone(&device), options.cache.clone(), options.embedded);
        if let Some(fault) = &options.planted {
            kernels = kernels.with(fault.clone());
        }
        let capabilities = Capabilities {
            backend: "cuda".to_owned(),
            device: device.name.clone(),
            memory: Some(device.memory),
            details: vec![
                ("kernels for".to_owned(), device.target.name()),
                ("kernel sources".to_owned(), sources::digest()),
                ("multiprocessors".to_owned(), device.processors.to_string()),
                (
                    "driver for CUDA".to_owned(),
                    format!("{}.{}", device.driver / 1000, device.driver % 1000 / 10),
                ),
                ("shared memory of a block".to_owned(), device.shared.to_string()),
            ],
        };
        Ok(Self { device, kernels, capabilities, options, preferred: Vec::new() })
    }

    /// Whether a model would load now: kernels for this device, and memory for weights and activations.
    ///
    /// # Errors
    /// [`Error::Unsupported`] saying what is missing, [`Error::OutOfMemory`] with the bytes needed and free.
    pub fn check(&self, graph: &Graph, weights: &Weights) -> Result<()> {
        support::check(graph)?;
        self.kernels.check()?;
        let weights = CudaResident::bytes(graph, weights, self.options.lazy_media)?;
        CudaResident::check(&self.device, weights, self.shared_arena_bytes(graph, weights))
    }

    /// Another [`CudaOptions::split_rows`] for the plans made from here on: to compare.
    pub fn set_split_rows(&mut self, split_rows: bool) {
        self.options.split_rows = split_rows;
    }

    /// Another [`CudaOptions::few`] for the plans made from here on, and for the FP8 products of some shapes, weight rows and
    /// depth, a kernel by its entry point where it can do them: to compare.
    pub fn set_products(&mut self, few: bool, preferred: &[(usize, usize, &'static str)]) {
        self.options.few = few;
        self.preferred = preferred.to_vec();
    }

    /// Another [`CudaOptions::prefetch`] for the plans made from here on: to compare.
    pub fn set_prefetch(&mut self, prefetch: Prefetch) {
        self.options.prefetch = prefetch;
    }

    /// Bytes of the arena that all captured forwards share: what the largest of them needs, but not more than a share of
    /// the weights; larger forwards then share another one.
    fn shared_arena_bytes(&self, graph: &Graph, weights: usize) -> usize {
        let most = (weights / ARENA_SHARE).max(LEAST_ARENA);
        let all = bucket::up_to(self.options.captured_tokens);
        let bytes = all.map(|tokens| arena_bytes(graph, &Self::arena_bucket(tokens), false));
        bytes.filter(|bytes| *bytes <= most).max().unwrap_or(0)
    }

    /// A bucket of so many tokens and as much of everything else as an ordinary batch has.
    fn arena_bucket(tokens: usize) -> Sizes {
        bucket::of(&Sizes {
            tokens,
            sequences: ARENA_COUNTS.min(tokens),
            labels: ARENA_COUNTS.min(tokens),
            text_tokens: tokens,
            questions: ARENA_COUNTS.min(tokens),
            option_tokens: tokens,
            // The vision tower's activations are gone when the decoder's come.
            patches: tokens,
            media_tokens: tokens / 4,
            frames: ARENA_COUNTS.min(tokens),
        })
    }

    /// Device memory in use by everyone, in bytes.
    pub fn memory_in_use(&self) -> Result<u64> {
        let (free, total) =
            self.device.context.mem_get_info().map_err(|e| self.device.fault("asking for free memory", e))?;
        Ok((total - free) as u64)
    }

    fn builder<'a>(
        &'a self,
        graph: &'a Graph,
        resident: &'a CudaResident,
        inputs: &'a InputLayout,
        block: &DeviceMemory,
        bucket: Sizes,
        keep_all: bool,
    ) -> Builder<'a> {
        let split = self.split(graph, resident);
        // Where every tensor is kept, steps run one by one.
        let together = if keep_all {
            (0..graph.steps().len()).collect()
        } else {
            split::together(graph, &split, &bucket)
        };
        Builder {
            device: &self.device,
            kernels: &self.kernels,
            graph,
            resident,
            bucket,
            inputs,
            block: block.address(),
            output: None,
            arena: resident.arena.address(),
            layout: layout::arena(graph, &bucket, keep_all),
            stored: stored(graph, &split),
            split,
            together,
            portable: self.options.portable,
            few: self.options.few,
            large_tiles: self.options.large_tiles,
            warpgroups: self.options.warpgroups,
            preferred: &self.preferred,
            prefetch: self.options.prefetch,
            prefix: Prefix::None,
            pieces: None,
        }
    }

    /// Which tensors are split rows, by index: all that may be, if every product over such has weights in bfloat16.
    fn split(&self, graph: &Graph, resident: &CudaResident) -> Vec<bool> {
        let split = split::rows(graph);
        let one_plane = |step: &Step| match *step {
            Step::Linear { x, weight, .. } if split[x.index()] => {
                matches!(resident.address((weight, Form::Real { half: 0 })), Ok((_, 0)))
            }
            _ => true,
        };
        let hopper = self.device.target == Target::Hopper && !self.options.portable;
        if hopper && self.options.split_rows && graph.steps().iter().all(one_plane) {
            split
        } else {
            vec![false; split.len()]
        }
    }

    /// Whether kernels may start early: only those built for Hopper wait for their predecessors themselves.
    pub(crate) fn early(&self) -> bool {
        self.options.early && self.device.target == Target::Hopper
    }

    pub(crate) fn submit(&self, program: &Program) -> Result<()> {
        let early = self.early();
        for (i, (_, launch)) in program.launches.iter().enumerate() {
            // Some read inputs before they wait: those are uploaded before the first starts.
            launch.submit(&self.device, early && i > 0)?;
        }
        Ok(())
    }

    /// Captures whatever `work` submits.
    pub(crate) fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<CudaGraph> {
        let fault = |e| self.device.fault("capturing a graph", e);
        self.device.synchronize("capturing a graph")?;
        self.device
            .stream
            .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
            .map_err(fault)?;
        let submitted = work();
        let captured = self.device.stream.end_capture(CUgraphInstantiate_flags(0)).map_err(fault);
        submitted?;
        let graph = captured?.ok_or_else(|| Error::Internal("nothing was captured".to_owned()))?;
        graph.upload().map_err(fault)?;
        Ok(graph)
    }

    /// Writes a batch's inputs and submits their upload, the embedding rows in pieces: each is on its way while the next is
    /// gathered.
    pub(crate) fn upload(&self, plan: &mut CudaPlan, resident: &CudaResident, batch: &Batch) -> Result<()> {
        self.upload_in(&self.device.stream, plan, resident, batch)
    }

    /// The same in another stream, which the caller orders before the forward.
    pub(crate) fn upload_in(
        &self,
        stream: &CudaStream,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
    ) -> Result<()> {
        self.upload_after(stream, plan, resident, batch, &[])
    }

    /// The same with what is kept before the batch's sequences, or the places for their rows.
    fn upload_after(
        &self,
        stream: &CudaStream,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
        kept: &[Option<Kept>],
    ) -> Result<()> {
        if !batch.sizes.fits(&plan.bucket) {
            return Err(Error::Internal(format!(
                "a batch of {:?} in a bucket of {:?}",
                batch.sizes, plan.bucket
            )));
        }
        let CudaPlan { inputs, graph, pinned, block, prefix, .. } = plan;
        let after = matches!(prefix, Prefix::After { .. });
        let source = (&*graph, &resident.checkpoint);
        pinned.fill(stream, block, |bytes, upload| inputs.write(source, batch, (kept, after), bytes, upload))
    }

    /// Submits the forward.
    pub(crate) fn forward(&self, plan: &CudaPlan) -> Result<()> {
        match &plan.captured {
            Some(graph) => graph.launch().map_err(|e| self.device.fault("launching the forward", e)),
            None => self.submit(&plan.program),
        }
    }

    pub(crate) fn run_now(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
        taps: &mut Taps,
    ) -> Result<Vec<f32>> {
        self.upload(plan, resident, batch)?;
        if !taps.is_empty() {
            self.run_tapped(plan, resident, batch, taps)?;
        }
        self.finish_run(plan, batch)
    }

    /// The forward of what was uploaded.
    fn finish_run(&self, plan: &mut CudaPlan, batch: &Batch) -> Result<Vec<f32>> {
        if self.options.poison {
            plan.arena.fill(0xFF)?;
            plan.output.as_mut_slice().fill(0xFF);
        }
        self.forward(plan)?;
        self.device.synchronize("running the forward")?;
        Ok(Self::logits(plan, batch))
    }

    /// A new snapshot of the rows of a batch.
    fn keep_now(&self, plan: &mut CudaPlan, resident: &CudaResident, batch: &Batch) -> Result<CudaSnapshot> {
        let rows = batch.sizes.tokens;
        let pieces = Pieces::of(&plan.graph).filter(|_| plan.prefix == Prefix::Keep);
        let Some(pieces) = pieces.filter(|_| batch.sizes.sequences == 1 && rows.is_multiple_of(UNIT)) else {
            return Err(Error::Internal("these rows cannot be kept".to_owned()));
        };
        let memory = DeviceMemory::new(&self.device, pieces.bytes(rows))?;
        let snapshot = CudaSnapshot { memory, rows };
        self.upload_after(&self.device.stream, plan, resident, batch, &[Some(Kept::from(&snapshot))])?;
        self.finish_run(plan, batch)?;
        Ok(snapshot)
    }

    fn run_after_now(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
        snapshots: &[Option<&CudaSnapshot>],
    ) -> Result<Vec<f32>> {
        let rows: usize = snapshots.iter().flatten().map(|s| s.rows).sum();
        if !matches!(plan.prefix, Prefix::After { rows: most } if rows <= most) {
            return Err(Error::Internal(format!("{rows} kept rows for a plan of {:?}", plan.prefix)));
        }
        let kept: Vec<Option<Kept>> = snapshots.iter().map(|s| s.map(Kept::from)).collect();
        self.upload_after(&self.device.stream, plan, resident, batch, &kept)?;
        self.finish_run(plan, batch)
    }

    /// What the last forward of a plan left, once it has ended.
    pub(crate) fn logits(plan: &CudaPlan, batch: &Batch) -> Vec<f32> {
        let bytes = 4 * plan.graph.len(plan.graph.output(), &batch.sizes);
        let values = plan.output.as_slice()[..bytes].chunks_exact(4);
        values.map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    /// Runs the launches once more in memory where no tensor replaces another, and copies the tapped ones out.
    fn run_tapped(
        &self,
        plan: &CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
        taps: &mut Taps,
    ) -> Result<()> {
        let arena = DeviceMemory::new(&self.device, arena_bytes(&plan.graph, &plan.bucket, true))?;
        if self.options.poison {
            arena.fill(0xFF)?;
        }
        let builder = self.builder(&plan.graph, resident, &plan.inputs, &plan.block, plan.bucket, true);
        let program = Builder { arena: arena.address(), ..builder }.build()?;
        self.submit(&program)?;
        let stored = stored(&plan.graph, &self.split(&plan.graph, resident));
        // Rows that are moved are exact before they are split for the products: once more as they are.
        let builder = self.builder(&plan.graph, resident, &plan.inputs, &plan.block, plan.bucket, true);
        let builder = Builder { arena: arena.address(), ..builder };
        let mut moved: Vec<(TensorId, DeviceMemory)> = Vec::new();
        for step in plan.graph.steps() {
            let Step::SelectRows { out, .. } = *step else { continue };
            let elements = plan.graph.len(out, &plan.bucket);
            if stored[out.index()] == Stored::Split && elements > 0 && taps.wanted().contains(&out) {
                let memory = DeviceMemory::new(&self.device, 4 * elements)?;
                builder.moved_rows(step, memory.address())?.submit(&self.device, false)?;
                moved.push((out, memory));
            }
        }
        self.device.synchronize("running the tapped forward")?;
        for id in taps.wanted().to_vec() {
            if let Some((_, memory)) = moved.iter().find(|(out, _)| *out == id) {
                let whole = (&plan.graph, Stored::F32);
                taps.put(id, widened(whole, &plan.bucket, &batch.sizes, id, memory, 0)?);
                continue;
            }
            let offset = program.layout.offsets[id.index()].unwrap_or(0) as usize;
            taps.put(
                id,
                widened((&plan.graph, stored[id.index()]), &plan.bucket, &batch.sizes, id, &arena, offset)?,
            );
        }
        Ok(())
    }
}

/// The format of every tensor, by index, given those that are split rows.
fn stored(graph: &Graph, split: &[bool]) -> Vec<Stored> {
    let stored = layout::storage(graph).into_iter().zip(split);
    stored.map(|(stored, split)| if *split { Stored::Split } else { stored }).collect()
}

/// The real rows of a tensor as f32.
fn widened(
    (graph, stored): (&Graph, Stored),
    bucket: &Sizes,
    sizes: &Sizes,
    id: TensorId,
    arena: &DeviceMemory,
    offset: usize,
) -> Result<Vec<f32>> {
    let tensor = graph.tensor(id);
    let elements = graph.len(id, sizes);
    match tensor.dtype {
        DType::F32 => Ok(match stored {
            Stored::F32 => arena.read(offset, elements)?,
            Stored::Split => {
                let rows = tensor.shape.first().map_or(0, |d| d.bind(sizes));
                let capacity = layout::token_capacity(tensor.shape.first().map_or(0, |d| d.bind(bucket)));
                let width = elements.checked_div(rows).unwrap_or(0);
                let planes: Vec<u16> = arena.read(offset, 2 * capacity * width)?;
                let value = |at: usize| bf16::from_bits(planes[at]).to_f32();
                (0..rows)
                    .flat_map(|r| (0..width).map(move |k| layout::split_offset(r, k, capacity) / 2))
                    .map(|at| value(at) + value(at + capacity * width))
                    .collect()
            }
            Stored::F16 => {
                arena.read::<u16>(offset, elements)?.into_iter().map(|b| f16::from_bits(b).to_f32()).collect()
            }
            Stored::BF16 => arena
                .read::<u16>(offset, elements)?
                .into_iter()
                .map(|b| bf16::from_bits(b).to_f32())
                .collect(),
        }),
        DType::I32 => Ok(arena.read::<i32>(offset, elements)?.into_iter().map(|v| v as f32).collect()),
        DType::I8 | DType::F8E4M3 => {
            let rows = tensor.shape.first().map_or(0, |d| d.bind(sizes));
            let capacity = layout::token_capacity(tensor.shape.first().map_or(0, |d| d.bind(bucket)));
            let width = elements.checked_div(rows).unwrap_or(0);
            let bytes: Vec<u8> =
                arena.read(offset, layout::k_blocks(width, 1) * capacity * layout::K_BLOCK)?;
            Ok((0..rows)
                .flat_map(|r| (0..width).map(move |k| layout::code_offset(r, k, capacity)))
                .map(|at| match tensor.dtype {
                    DType::I8 => f32::from(bytes[at] as i8),
                    _ => e4m3::decode(bytes[at]),
                })
                .collect())
        }
    }
}

impl Backend for CudaBackend {
    type Resident = CudaResident;
    type Plan = CudaPlan;
    type Snapshot = CudaSnapshot;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn budget(&self, graph: &Graph, weights: &Weights, bucket: &Sizes) -> Result<MemoryBudget> {
        support::check(graph)?;
        let device_weights = CudaResident::bytes(graph, weights, self.options.lazy_media)?;
        let arena = self.shared_arena_bytes(graph, device_weights);
        let own = arena_bytes(graph, bucket, false);
        let inputs = InputLayout::new(graph, weights, bucket, None)?.bytes;
        Ok(MemoryBudget {
            device_weights: device_weights as u64,
            host_tables: CudaResident::host_bytes(graph, weights)?,
            activations: (arena + if own > arena { own } else { 0 } + inputs) as u64,
        })
    }

    fn load(
        &self,
        graph: &Graph,
        weights: &Weights,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CudaResident> {
        let lazy = self.options.lazy_media;
        let arena = self.shared_arena_bytes(graph, CudaResident::bytes(graph, weights, lazy)?);
        CudaResident::load(&self.device, &self.kernels, (graph, weights), arena, lazy, progress)
    }

    fn plan(&self, graph: &Graph, resident: &CudaResident, bucket: &Sizes) -> Result<CudaPlan> {
        self.plan_prefix(graph, resident, bucket, Prefix::None)
    }

    fn snapshot_bytes(&self, graph: &Graph, rows: usize) -> Option<u64> {
        let pieces = Pieces::of(graph).filter(|_| rows > 0 && rows.is_multiple_of(UNIT))?;
        Some(pieces.bytes(rows) as u64)
    }

    fn plan_prefix(
        &self,
        graph: &Graph,
        resident: &CudaResident,
        bucket: &Sizes,
        prefix: Prefix,
    ) -> Result<CudaPlan> {
        let pieces = match prefix {
            Prefix::None => None,
            _ => Some(
                Pieces::of(graph).ok_or_else(|| self.device.lacks("snapshots of states of this model"))?,
            ),
        };
        let pieces = pieces.as_ref();
        let media =
            if bucket.patches > 0 { resident.need_media(&self.device, &self.kernels, graph)? } else { None };
        let inputs = InputLayout::new(graph, &resident.checkpoint, bucket, pieces)?;
        let block = DeviceMemory::new(&self.device, inputs.bytes)?;
        block.fill(0)?;
        let pinned = PinnedMemory::new(&self.device, inputs.bytes)?;
        let output = PinnedMemory::new(&self.device, 4 * graph.len(graph.output(), bucket))?;
        let needed = arena_bytes_prefix(graph, bucket, false, pieces, prefix);
        let arena = resident.arena(&self.device, needed)?;
        let builder = self.builder(graph, resident, &inputs, &block, *bucket, false);
        let output_address = Some(output.device_address());
        let builder = Builder { arena: arena.address(), output: output_address, ..builder };
        let program = Builder { prefix, pieces, ..builder }.build()?;
        let captured = if bucket.tokens <= self.options.captured_tokens {
            Some(self.capture(|| self.submit(&program))?)
        } else {
            None
        };
        Ok(CudaPlan {
            captured,
            program,
            graph: graph.clone(),
            bucket: *bucket,
            prefix,
            inputs,
            block,
            pinned,
            output,
            arena,
            _weights: [Some(Arc::clone(&resident.weights)), media],
        })
    }

    fn bucket(&self, sizes: &Sizes) -> Sizes {
        bucket::of(sizes)
    }

    fn run(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
        taps: &mut Taps,
    ) -> impl Future<Output = Result<Vec<f32>>> {
        ready(self.run_now(plan, resident, batch, taps))
    }

    fn keep(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
    ) -> impl Future<Output = Result<CudaSnapshot>> {
        ready(self.keep_now(plan, resident, batch))
    }

    fn run_after(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
        snapshots: &[Option<&CudaSnapshot>],
    ) -> impl Future<Output = Result<Vec<f32>>> {
        ready(self.run_after_now(plan, resident, batch, snapshots))
    }

    fn profile(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
    ) -> impl Future<Output = Result<Vec<StepTime>>> {
        ready(self.time_steps(plan, resident, batch))
    }

    fn ceilings(&self) -> impl Future<Output = Result<Ceilings>> {
        ready(self.measure_ceilings())
    }
}
