//! Times on the device: ceilings, products, steps, forwards. Events around graph replays, medians.

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaEvent, CudaGraph};
use dikast_core::backend::Batch;
use dikast_core::{Error, Result};

use crate::args;
use crate::backend::{CudaBackend, CudaPlan};
use crate::gemm::{self, Chip, Choice, Shape};
use crate::launch::Launch;
use crate::layout;
use crate::memory::DeviceMemory;
use crate::resident::CudaResident;

/// What the device can do at most, measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceilings {
    /// Bytes read plus written a second by a large copy.
    pub copy_bytes_per_second: f64,
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

/// One launch's time, repeated alone with its operands in the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// Step of the graph.
    pub step: usize,
    /// Kernel entry point.
    pub kernel: &'static str,
    /// Microseconds.
    pub microseconds: f64,
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

    /// Measures the ceilings.
    ///
    /// # Errors
    /// As for any work on the device.
    pub fn ceilings(&self) -> Result<Ceilings> {
        const BYTES: usize = 1 << 30;
        let (from, to) = (DeviceMemory::new(&self.device, BYTES)?, DeviceMemory::new(&self.device, BYTES)?);
        from.fill(0x5A)?;
        let time = self.median(10, || to.copy_from(&from))?;
        Ok(Ceilings { copy_bytes_per_second: 2.0 * BYTES as f64 / (time * 1e-6) })
    }

    /// Times the product of `tokens` × `k` codes and `n` × `k` codes with every kernel that can do it; weights come from
    /// device memory. One kernel after the other as in a forward, each let in early by its predecessor.
    ///
    /// # Errors
    /// As for any work on the device.
    pub fn time_products(&self, n: usize, k: usize, tokens: usize, gated: bool) -> Result<Vec<GemmTime>> {
        let columns = if gated { n / 2 } else { n };
        let half = if gated { columns } else { 0 };
        let (weight_rows, k_blocks) = (layout::weight_rows(n, half), layout::k_blocks(k, 1));
        let shape = Shape { weight_rows, k_blocks, tokens };
        let chip = Chip {
            target: self.device.target,
            processors: self.device.processors,
            shared: self.device.shared,
        };
        let chosen = gemm::choose(chip, shape);
        let mut choices = vec![chosen];
        if self.device.target == crate::device::Target::Hopper {
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
        let out = memory(4 * columns * tokens)?;
        let rows = memory(4)?;
        rows.write(0, &[tokens as i32])?;

        let mut times = Vec::new();
        for choice in distinct {
            let function = self.kernels.function(choice.kernel, choice.entry, choice.grid.shared)?;
            let launches: Vec<Launch> = (0..copies)
                .map(|copy| {
                    let arguments = args::Fp8Gemm {
                        codes: codes.address(),
                        scales: scales.address(),
                        weight: weights.address() + (copy * bytes) as u64,
                        weight_scales: row_scales.address(),
                        residual: 0,
                        out: out.address(),
                        rows: rows.address(),
                        capacity: layout::token_capacity(tokens) as i32,
                        k_blocks: k_blocks as i32,
                        columns: columns as i32,
                        gated: i32::from(gated),
                        activation: if gated { 2 } else { 0 },
                        row_tiles: choice.row_tiles as i32,
                        cluster_tokens: choice.cluster_tokens as i32,
                        stages: choice.stages as i32,
                    };
                    Launch::new(choice.entry, function.clone(), choice.grid, &arguments)
                })
                .collect();
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

    /// Times launches of a plan one by one: each repeated in a graph of its own, fully ordered, operands in the cache.
    /// `first` to `last` are steps of the graph.
    ///
    /// # Errors
    /// As for [`dikast_core::backend::Backend::run`].
    pub fn time_steps(
        &self,
        plan: &mut CudaPlan,
        resident: &CudaResident,
        batch: &Batch,
        steps: std::ops::Range<usize>,
    ) -> Result<Vec<StepTime>> {
        const REPEATS: usize = 16;
        self.upload(plan, resident, batch)?;
        self.forward(plan)?;
        let mut times = Vec::new();
        for (step, launch) in plan.program.launches.iter().filter(|(s, _)| steps.contains(s)) {
            let graph = self.capture(|| (0..REPEATS).try_for_each(|_| launch.submit(&self.device, false)))?;
            let time = self.median(5, || self.replay(&graph))?;
            times.push(StepTime { step: *step, kernel: launch.name, microseconds: time / REPEATS as f64 });
        }
        Ok(times)
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

    /// Kernels of a plan's forward.
    pub fn launches(&self, plan: &CudaPlan) -> usize {
        plan.program.launches.len()
    }
}

/// Random finite E4M3 codes.
fn random_codes(count: usize) -> Vec<u8> {
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
