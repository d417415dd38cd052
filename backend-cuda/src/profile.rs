//! Times on the device: ceilings, products, steps, forwards. Events around graph replays, medians.

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaEvent, CudaGraph};
use dikast_core::backend::{Batch, Ceilings, StepTime};
use dikast_core::graph::{DType, Graph};
use dikast_core::{Error, Result};

use crate::args;
use crate::backend::{CudaBackend, CudaPlan};
use crate::device::Target;
use crate::gemm::{self, Chip, Choice, Exit, Shape};
use crate::launch::Launch;
use crate::layout::{self, Stored};
use crate::linear;
use crate::memory::DeviceMemory;
use crate::product;
use crate::resident::CudaResident;

/// What a product writes, as the products of an mT5 block do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductKind {
    /// Binary16, for attention.
    Plain,
    /// float32, added to a residual.
    Residual,
    /// bfloat16, gated.
    Gated,
}

impl ProductKind {
    /// The format of the results.
    pub(crate) fn stored(self) -> Stored {
        match self {
            Self::Plain => Stored::F16,
            Self::Residual => Stored::F32,
            Self::Gated => Stored::BF16,
        }
    }
}

/// One product's time.
#[derive(Debug, Clone, PartialEq)]
pub struct GemmTime {
    /// Kernel entry point.
    pub kernel: &'static str,
    /// Whether the plan would take this one.
    pub chosen: bool,
    /// Row tiles and token tiles of a cluster.
    pub cluster: [usize; 2],
    /// Microseconds a product.
    pub microseconds: f64,
    /// Dynamic shared memory, blocks.
    pub shared: usize,
    /// Blocks along x and y.
    pub blocks: [usize; 2],
}

/// Device bytes over which weights are spread so that they come from memory, not from the cache.
const COLD_BYTES: usize = 256 << 20;
/// Most copies of a weight.
const COPIES: usize = 32;

impl CudaBackend {
    fn event(&self) -> Result<CudaEvent> {
        self.device
            .stream
            .record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
            .map_err(|e| self.device.fault("recording an event", e))
    }

    /// Median microseconds of `work` over `repeats`, after three calls to warm up.
    fn median(&self, repeats: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
        let mut times = Vec::with_capacity(repeats);
        for i in 0..repeats + 3 {
            let start = self.event()?;
            work()?;
            let end = self.event()?;
            let time = start.elapsed_ms(&end).map_err(|e| self.device.fault("timing", e))?;
            if i >= 3 {
                times.push(f64::from(time) * 1000.0);
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    fn replay(&self, graph: &CudaGraph) -> Result<()> {
        graph.launch().map_err(|e| self.device.fault("replaying a graph", e))
    }

    /// Median microseconds of one of several launches in a row, each let in early by its predecessor.
    pub(crate) fn time_launches(&self, launches: &[Launch]) -> Result<f64> {
        let early = self.early();
        let graph = self.capture(|| {
            launches.iter().enumerate().try_for_each(|(i, l)| l.submit(&self.device, early && i > 0))
        })?;
        Ok(self.median(8, || self.replay(&graph))? / launches.len() as f64)
    }

    /// What a large copy, and large products of both kinds, reach.
    pub(crate) fn measure_ceilings(&self) -> Result<Ceilings> {
        const BYTES: usize = 1 << 30;
        let copy = {
            let (from, to) =
                (DeviceMemory::new(&self.device, BYTES)?, DeviceMemory::new(&self.device, BYTES)?);
            from.fill(0x5A)?;
            self.median(10, || to.copy_from(&from))?
        };
        let (n, k, tokens) = (8192, 4096, 4096);
        let flops = 2.0 * (n * k * tokens) as f64;
        let quantized = self.time_products(n, k, tokens, ProductKind::Plain)?;
        let quantized =
            quantized.iter().filter(|t| t.chosen).map(|t| t.microseconds).fold(f64::INFINITY, f64::min);
        let real = self.time_linear(n / 4, k, tokens)?;
        Ok(Ceilings {
            copy_bytes: 2.0 * BYTES as f64 / (copy * 1e-6),
            product_flops: flops / 4.0 / (real * 1e-6),
            quantized_product_flops: flops / (quantized * 1e-6),
        })
    }

    /// Median microseconds of a float32 product with `n` × `k` bfloat16 weights, operands in the cache.
    ///
    /// # Errors
    /// As for any work on the device.
    pub fn time_linear(&self, n: usize, k: usize, tokens: usize) -> Result<f64> {
        const REPEATS: usize = 16;
        let (weight_rows, k_blocks) = (layout::weight_rows(n, 0), layout::k_blocks(k, 2));
        let memory = |bytes| DeviceMemory::new(&self.device, bytes);
        let weight = memory(layout::weight_bytes(n, 0, k_blocks))?;
        weight.write(0, &random_halves(weight.bytes() / 2))?;
        let x = memory(4 * tokens * k)?;
        x.write(0, &random_halves(2 * tokens * k))?;
        let out = memory(4 * tokens * n)?;
        let rows = memory(4)?;
        rows.write(0, &[tokens as i32])?;
        let arguments = args::Linear {
            x: x.address(),
            weight: weight.address(),
            weight_tail: 0,
            bias: 0,
            residual: 0,
            out: out.address(),
            rows: rows.address(),
            k: k as i32,
            k_blocks: k_blocks as i32,
            columns: n as i32,
            gated: 0,
            activation: 0,
            pad: 0,
        };
        let shape = linear::Shape { rows: weight_rows, planes: 1, tokens };
        let choice = linear::choose(self.device.target, self.device.processors, self.options.portable, shape);
        let function = self.kernels.function(choice.kernel, choice.entry, choice.grid.shared)?;
        let launch = Launch::new(choice.entry, function, choice.grid, &arguments);
        let graph = self.capture(|| (0..REPEATS).try_for_each(|_| launch.submit(&self.device, false)))?;
        Ok(self.median(5, || self.replay(&graph))? / REPEATS as f64)
    }

    /// Times the product of `tokens` × `k` codes and `n` × `k` codes with every kernel that can do it; weights come from
    /// device memory. One kernel after the other as in a forward, each let in early by its predecessor.
    ///
    /// # Errors
    /// As for any work on the device.
    pub fn time_products(
        &self,
        n: usize,
        k: usize,
        tokens: usize,
        kind: ProductKind,
    ) -> Result<Vec<GemmTime>> {
        let gated = kind == ProductKind::Gated;
        let stored = kind.stored();
        let columns = if gated { n / 2 } else { n };
        let half = if gated { columns } else { 0 };
        let (weight_rows, k_blocks) = (layout::weight_rows(n, half), layout::k_blocks(k, 1));
        let added = kind == ProductKind::Residual;
        let shape = Shape {
            weight_rows,
            k_blocks,
            tokens,
            exit: Exit::of(columns, gated, stored, added, self.options.large_tiles),
        };
        let chip = self.chip();
        let chosen = gemm::choose(chip, shape, self.options.few);
        let mut choices = vec![chosen];
        if self.device.target == Target::Hopper {
            choices.extend(gemm::candidates(chip, shape));
            if tokens == 64 {
                choices.push(gemm::portable(shape));
            }
        }
        let mut distinct: Vec<Choice> = Vec::new();
        for choice in choices {
            if !distinct.contains(&choice) {
                distinct.push(choice);
            }
        }

        let bytes = layout::weight_bytes(n, half, k_blocks);
        let copies = COLD_BYTES.div_ceil(bytes).clamp(2, COPIES);
        let memory = |bytes| DeviceMemory::new(&self.device, bytes).map(Arc::new);
        let weights = memory(bytes * copies)?;
        weights.write(0, &random_codes(bytes * copies))?;
        let codes = memory(layout::codes_bytes(tokens, k))?;
        codes.write(0, &random_codes(layout::codes_bytes(tokens, k)))?;
        let (scales, row_scales) = (memory(4 * layout::token_capacity(tokens))?, memory(4 * weight_rows)?);
        scales.write(0, &vec![1e-3f32; layout::token_capacity(tokens)])?;
        row_scales.write(0, &vec![1e-3f32; weight_rows])?;
        let out = memory(stored.bytes() * columns * tokens)?;
        let residual = if kind == ProductKind::Residual { Some(memory(4 * columns * tokens)?) } else { None };
        if let Some(residual) = &residual {
            residual.fill(0)?;
        }
        let rows = memory(4)?;
        rows.write(0, &[tokens as i32])?;

        let mut times = Vec::new();
        for choice in distinct {
            let launches: Vec<Launch> = (0..copies)
                .map(|copy| {
                    // Where a plan has them: a residual where the results go, if they can be added there.
                    let beside = residual.as_ref().map_or(0, |r| r.address());
                    let in_place = matches!(choice.boxes(), Some((_, true)));
                    let arguments = args::Fp8Gemm {
                        codes: codes.address(),
                        scales: scales.address(),
                        weight: weights.address() + (copy * bytes) as u64,
                        weight_scales: row_scales.address(),
                        residual: beside,
                        out: if in_place { beside } else { out.address() },
                        rows: rows.address(),
                        capacity: layout::token_capacity(tokens) as i32,
                        k_blocks: k_blocks as i32,
                        columns: columns as i32,
                        gated: i32::from(gated),
                        activation: if gated { 2 } else { 0 },
                        row_tiles: choice.row_tiles as i32,
                        cluster_tokens: choice.cluster_tokens as i32,
                        stages: choice.stages as i32,
                        stored: stored as i32,
                        pad: 0,
                    };
                    product::launch(&self.device, &self.kernels, &choice, arguments, (stored, tokens))
                })
                .collect::<Result<_>>()?;
            let early = self.early();
            let graph = self.capture(|| {
                launches.iter().enumerate().try_for_each(|(i, l)| l.submit(&self.device, early && i > 0))
            })?;
            let time = self.median(12, || self.replay(&graph))?;
            times.push(GemmTime {
                kernel: choice.entry,
                chosen: choice == chosen,
                cluster: [choice.grid.cluster / choice.cluster_tokens.max(1), choice.cluster_tokens],
                microseconds: time / copies as f64,
                shared: choice.grid.shared,
                blocks: choice.grid.blocks,
            });
        }
        Ok(times)
    }

    /// Kernels for Hopper that a product of `tokens` × `k` codes and `n` × `k` codes can have, the one expected to be fastest
    /// first.
    pub fn product_kernels(&self, n: usize, k: usize, tokens: usize, kind: ProductKind) -> Vec<&'static str> {
        let gated = kind == ProductKind::Gated;
        let columns = if gated { n / 2 } else { n };
        let half = if gated { columns } else { 0 };
        let (weight_rows, k_blocks) = (layout::weight_rows(n, half), layout::k_blocks(k, 1));
        let shape = Shape {
            weight_rows,
            k_blocks,
            tokens,
            exit: Exit::of(
                columns,
                gated,
                kind.stored(),
                kind == ProductKind::Residual,
                self.options.large_tiles,
            ),
        };
        if self.device.target != Target::Hopper {
            return Vec::new();
        }
        let mut entries: Vec<&'static str> = Vec::new();
        for choice in gemm::candidates(self.chip(), shape) {
            if !entries.contains(&choice.entry) {
                entries.push(choice.entry);
            }
        }
        entries
    }

    /// What of the device decides about products.
    pub(crate) fn chip(&self) -> Chip {
        Chip { target: self.device.target, processors: self.device.processors, shared: self.device.shared }
    }

    /// Times the launches of a plan one by one: each repeated in a graph of its own, fully ordered, operands in the cache.
    pub(crate) fn time_steps(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
    ) -> Result<Vec<StepTime>> {
        self.time_some_steps(plan, resident, batch, &|_| true)
    }

    /// The same for the launches of the steps that `wanted` says yes to.
    ///
    /// # Errors
    /// As for [`dikast_core::backend::Backend::run`].
    pub fn time_some_steps(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<StepTime>> {
        const REPEATS: usize = 16;
        self.upload(plan, resident, batch)?;
        self.forward(plan)?;
        let mut times = Vec::new();
        for (step, launch) in plan.program.launches.iter().filter(|(step, _)| wanted(*step)) {
            let graph = self.capture(|| (0..REPEATS).try_for_each(|_| launch.submit(&self.device, false)))?;
            let time = self.median(5, || self.replay(&graph))?;
            times.push(StepTime { step: *step, nanos: (time * 1e3 / REPEATS as f64) as u64 });
        }
        Ok(times)
    }

    /// Bytes of an element of each tensor of a graph as this backend keeps it.
    pub fn element_bytes(graph: &Graph) -> Vec<usize> {
        let stored = layout::storage(graph);
        let bytes = graph.tensors().iter().zip(stored).map(|(tensor, stored)| match tensor.dtype {
            DType::F32 => stored.bytes(),
            other => other.bytes(),
        });
        bytes.collect()
    }

    /// The kernel entry point of each step that has one, in execution order.
    pub fn kernels(&self, plan: &CudaPlan) -> Vec<(usize, &'static str)> {
        plan.program.launches.iter().map(|(step, launch)| (*step, launch.name)).collect()
    }

    /// Median microseconds of the forward alone on the device, inputs uploaded before.
    ///
    /// # Errors
    /// As for [`dikast_core::backend::Backend::run`].
    pub fn time_forward(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
        repeats: usize,
    ) -> Result<f64> {
        self.upload(plan, resident, batch)?;
        self.median(repeats, || self.forward(plan))
    }

    /// Median microseconds from a batch in host memory to logits in host memory, and the 99th percentile.
    ///
    /// # Errors
    /// As for [`dikast_core::backend::Backend::run`].
    pub fn time_requests(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
        repeats: usize,
    ) -> Result<(f64, f64)> {
        let mut times = Vec::with_capacity(repeats);
        for i in 0..repeats + 10 {
            let start = std::time::Instant::now();
            let logits = self.run_now(plan, resident, batch, &mut dikast_core::backend::Taps::none())?;
            if logits.is_empty() {
                return Err(Error::Internal("no logits".to_owned()));
            }
            if i >= 10 {
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        times.sort_by(f64::total_cmp);
        Ok((times[times.len() / 2], times[times.len() * 99 / 100]))
    }

    /// Seconds a batch when batches follow one another in two plans of one bucket: one is gathered and uploaded while the
    /// other is computed. The logits of all are compared with `expected`.
    ///
    /// # Errors
    /// As for [`dikast_core::backend::Backend::run`]; [`Error::Internal`] when other logits come out.
    pub fn time_in_turns(
        &self,
        plans: &mut [CudaPlan; 2],
        resident: &CudaResident,
        batch: &Batch,
        expected: &[f32],
        batches: usize,
    ) -> Result<f64> {
        let fault = |e| self.device.fault("running batches in turns", e);
        let copies = self.device.context.new_stream().map_err(fault)?;
        let mut ended: [Option<CudaEvent>; 2] = [None, None];
        let collect = |plan: &CudaPlan, ended: &mut Option<CudaEvent>| -> Result<()> {
            let Some(event) = ended.take() else { return Ok(()) };
            event.synchronize().map_err(fault)?;
            if Self::logits(plan, batch) != expected {
                return Err(Error::Internal("a batch in turn has other logits than alone".to_owned()));
            }
            Ok(())
        };
        let mut start = std::time::Instant::now();
        for i in 0..batches + 4 {
            let turn = i % 2;
            collect(&plans[turn], &mut ended[turn])?;
            if i == 4 {
                // The third has just ended: from here on one more ends than is begun.
                start = std::time::Instant::now();
            }
            self.upload_in(&copies, &mut plans[turn], resident, batch)?;
            let uploaded = copies.record_event(None).map_err(fault)?;
            self.device.stream.wait(&uploaded).map_err(fault)?;
            self.forward(&plans[turn])?;
            ended[turn] = Some(self.device.stream.record_event(None).map_err(fault)?);
        }
        for turn in [batches % 2, 1 - batches % 2] {
            collect(&plans[turn], &mut ended[turn])?;
        }
        Ok(start.elapsed().as_secs_f64() / (batches + 1) as f64)
    }

    /// Bytes on the device that a model and its plans hold.
    pub fn own_bytes(&self, resident: &CudaResident, plans: &[CudaPlan]) -> u64 {
        let plans: usize = plans.iter().map(|p| p.own_bytes(resident)).sum();
        (resident.weight_bytes() + resident.arena.bytes() + plans) as u64
    }

    /// Kernels of a plan's forward.
    pub fn launches(&self, plan: &CudaPlan) -> usize {
        plan.program.launches.len()
    }
}

/// Random finite E4M3 codes.
pub(crate) fn random_codes(count: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut codes = Vec::with_capacity(count + 8);
    while codes.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // 0x7F and 0xFF are NaN: clear the lowest mantissa bit.
        codes.extend((state & 0xFEFE_FEFE_FEFE_FEFE).to_le_bytes());
    }
    codes.truncate(count);
    codes
}

/// Random bfloat16 numbers of moderate size; two of them make a float32 of moderate size too.
fn random_halves(count: usize) -> Vec<u16> {
    random_codes(2 * count)
        .chunks_exact(2)
        .map(|b| (u16::from_le_bytes([b[0], b[1]]) & 0x80FF) | 0x3F00)
        .collect()
}
