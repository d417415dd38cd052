//! FP8 products on their own: every kernel, tile and cluster that a product can have, compared bit for bit.

use dikast_core::numerics::e4m3;
use dikast_core::{Error, Result};

use crate::args;
use crate::backend::CudaBackend;
use crate::device::Target;
use crate::gemm::{self, Choice, Exit, LargeTiles, Shape};
use crate::launch::Launch;
use crate::layout::{self, K_BLOCK, Stored, TILE_ROWS};
use crate::memory::DeviceMemory;
use crate::product;
use crate::profile::{ProductKind, random_codes};

/// A product of random codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fp8Case {
    /// Rows of the weight; of both halves where gated.
    pub n: usize,
    /// Depth.
    pub k: usize,
    /// Rows of the activations.
    pub tokens: usize,
    /// Rows that the kernels are chosen and launched for, at least `tokens`.
    pub bucket: usize,
    /// What it writes.
    pub kind: ProductKind,
}

/// What one kernel made of a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fp8Trial {
    /// Kernel entry point.
    pub kernel: &'static str,
    /// Whether the plan would take this one.
    pub chosen: bool,
    /// Row tiles and token tiles of a cluster.
    pub cluster: [usize; 2],
    /// Blocks along x and y.
    pub blocks: [usize; 2],
    /// Sampled results beyond what the tensor core's sums and one rounding may be off.
    pub wrong: usize,
    /// Elements that differ from the first kernel's.
    pub differing: usize,
    /// Whether memory after the results, or a row that no token has, was written.
    pub spilled: bool,
}

/// Results computed on the host.
const SAMPLES: usize = 200;
/// Bytes after the results that must stay as they are.
const GUARD: usize = 4096;
/// Share of the sum of magnitudes by which the tensor core's sums may be off.
const SUM_ERROR: f64 = 1.0 / 2048.0;

struct Product {
    case: Fp8Case,
    stored: Stored,
    columns: usize,
    half: usize,
    k_blocks: usize,
    weight_rows: usize,
    capacity: usize,
    /// Operands in the device's order.
    weight: Vec<u8>,
    codes: Vec<u8>,
    scales: Vec<f32>,
    row_scales: Vec<f32>,
    residual: Vec<f32>,
    on_device: OnDevice,
}

struct OnDevice {
    weight: DeviceMemory,
    codes: DeviceMemory,
    scales: DeviceMemory,
    row_scales: DeviceMemory,
    residual: DeviceMemory,
    out: DeviceMemory,
    rows: DeviceMemory,
}

/// Numbers between `size` / 2 and `size`.
fn sizes(count: usize, size: f32) -> Vec<f32> {
    random_codes(count).iter().map(|&c| size * (0.5 + f32::from(c) / 512.0)).collect()
}

impl Product {
    fn new(backend: &CudaBackend, case: Fp8Case) -> Result<Self> {
        let gated = case.kind == ProductKind::Gated;
        if case.tokens > case.bucket
            || case.n * case.k * case.tokens == 0
            || (gated && !case.n.is_multiple_of(2))
        {
            return Err(Error::Internal(format!("no product: {case:?}")));
        }
        let stored = case.kind.stored();
        let columns = if gated { case.n / 2 } else { case.n };
        let half = if gated { columns } else { 0 };
        let k_blocks = layout::k_blocks(case.k, 1);
        let weight_rows = layout::weight_rows(case.n, half);
        let capacity = layout::token_capacity(case.bucket);
        let mut weight = random_codes(layout::weight_bytes(case.n, half, k_blocks));
        let mut codes = random_codes(layout::codes_bytes(case.bucket, case.k));
        for k in case.k..k_blocks * K_BLOCK {
            (0..weight_rows).for_each(|row| weight[weight_at(row, k, k_blocks)] = 0);
            (0..capacity).for_each(|row| codes[layout::code_offset(row, k, capacity)] = 0);
        }
        // Rows that no token has are NaN, and must not matter.
        for row in case.tokens..capacity {
            (0..k_blocks * K_BLOCK).for_each(|k| codes[layout::code_offset(row, k, capacity)] = 0x7F);
        }
        let (scales, row_scales) = (sizes(capacity, 1e-3), sizes(weight_rows, 1e-3));
        let residual = sizes(if case.kind == ProductKind::Residual { case.bucket * columns } else { 0 }, 2.0);
        let memory = |bytes| DeviceMemory::new(&backend.device, bytes);
        let on_device = OnDevice {
            weight: memory(weight.len())?,
            codes: memory(codes.len())?,
            scales: memory(4 * capacity)?,
            row_scales: memory(4 * weight_rows)?,
            residual: memory(4 * residual.len().max(1))?,
            out: memory(stored.bytes() * columns * case.bucket + GUARD)?,
            rows: memory(4)?,
        };
        on_device.weight.write(0, &weight)?;
        on_device.codes.write(0, &codes)?;
        on_device.scales.write(0, &scales)?;
        on_device.row_scales.write(0, &row_scales)?;
        on_device.residual.write(0, &residual)?;
        on_device.rows.write(0, &[case.tokens as i32])?;
        Ok(Self {
            case,
            stored,
            columns,
            half,
            k_blocks,
            weight_rows,
            capacity,
            weight,
            codes,
            scales,
            row_scales,
            residual,
            on_device,
        })
    }

    fn shape(&self) -> Shape {
        let gated = self.case.kind == ProductKind::Gated;
        Shape {
            weight_rows: self.weight_rows,
            k_blocks: self.k_blocks,
            tokens: self.case.bucket,
            exit: Exit::of(self.columns, gated, self.stored, false, LargeTiles::default()),
        }
    }

    fn launch(&self, backend: &CudaBackend, choice: Choice) -> Result<Launch> {
        let gated = self.case.kind == ProductKind::Gated;
        let arguments = args::Fp8Gemm {
            codes: self.on_device.codes.address(),
            scales: self.on_device.scales.address(),
            weight: self.on_device.weight.address(),
            weight_scales: self.on_device.row_scales.address(),
            residual: if self.residual.is_empty() { 0 } else { self.on_device.residual.address() },
            out: self.on_device.out.address(),
            rows: self.on_device.rows.address(),
            capacity: self.capacity as i32,
            k_blocks: self.k_blocks as i32,
            columns: self.columns as i32,
            gated: i32::from(gated),
            activation: if gated { 2 } else { 0 },
            row_tiles: choice.row_tiles as i32,
            cluster_tokens: choice.cluster_tokens as i32,
            stages: choice.stages as i32,
            stored: self.stored as i32,
            pad: 0,
        };
        product::launch(
            &backend.device,
            &backend.kernels,
            &choice,
            arguments,
            (self.stored, self.case.bucket),
        )
    }

    /// Row `t` of the activations times row `w` of the weight as the device orders them, and by how much it may be off.
    fn value(&self, t: usize, w: usize) -> (f64, f64) {
        let (mut sum, mut magnitudes) = (0.0, 0.0);
        for k in 0..self.case.k {
            let x = f64::from(e4m3::decode(self.codes[layout::code_offset(t, k, self.capacity)]));
            let product = x * f64::from(e4m3::decode(self.weight[weight_at(w, k, self.k_blocks)]));
            sum += product;
            magnitudes += product.abs();
        }
        let scale = f64::from(self.scales[t]) * f64::from(self.row_scales[w]);
        (sum * scale, magnitudes * scale * SUM_ERROR)
    }

    /// Result `(t, n)`, and by how much it may be off.
    fn expected(&self, t: usize, n: usize) -> (f64, f64) {
        let (first, off) = self.value(t, layout::place_of(n, self.half));
        match self.case.kind {
            ProductKind::Plain => (first, off + first.abs() / 1024.0),
            ProductKind::Residual => {
                let y = first + f64::from(self.residual[t * self.columns + n]);
                (y, off + y.abs() * 1e-6)
            }
            ProductKind::Gated => {
                let (up, up_off) = self.value(t, layout::place_of(n + self.half, self.half));
                // The approximation by tanh.
                let gate =
                    first / (1.0 + (-1.595_769_121_605_731 * (first + 0.044_715 * first.powi(3))).exp());
                let y = gate * up;
                // The gate's slope is at most 1.13.
                (y, 1.2 * off * (up.abs() + up_off) + gate.abs() * up_off + y.abs() / 128.0 + 1e-6)
            }
        }
    }

    /// Samples, the corners among them, that are not as computed here.
    fn wrong(&self, results: &[f32]) -> usize {
        let (tokens, columns) = (self.case.tokens, self.columns);
        let mut places = vec![(0, 0), (0, columns - 1), (tokens - 1, 0), (tokens - 1, columns - 1)];
        let mut state = 0x1234_5678_9ABC_DEF1_u64;
        for _ in 0..SAMPLES.min(tokens * columns) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            places.push(((state >> 33) as usize % tokens, (state >> 13) as usize % columns));
        }
        let good = |&(t, n): &(usize, usize)| {
            let (expected, off) = self.expected(t, n);
            (f64::from(results[t * columns + n]) - expected).abs() <= off
        };
        places.iter().filter(|place| !good(place)).count()
    }
}

/// Place of element `k` of a weight's row.
fn weight_at(row: usize, k: usize, k_blocks: usize) -> usize {
    let tile = row / TILE_ROWS * k_blocks + k / K_BLOCK;
    tile * TILE_ROWS * K_BLOCK + layout::code_offset(row % TILE_ROWS, k % K_BLOCK, 0)
}

/// Stored results as numbers.
fn numbers(bytes: &[u8], stored: Stored) -> Vec<f32> {
    match stored {
        Stored::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Stored::F16 => {
            bytes.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
        }
        Stored::BF16 => {
            bytes.chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
        }
        // No FP8 product writes them.
        Stored::Split => Vec::new(),
    }
}

impl CudaBackend {
    /// Runs a product with every kernel for this chip that can do it, on poisoned memory, and compares. Without `clusters`,
    /// blocks that share operands are left out.
    ///
    /// # Errors
    /// A case without elements; as for any work on the device.
    pub fn try_fp8(&self, case: Fp8Case, clusters: bool) -> Result<Vec<Fp8Trial>> {
        let product = Product::new(self, case)?;
        let (shape, device, chip) = (product.shape(), &self.device, self.chip());
        let chosen = gemm::choose(chip, shape, self.options.few);
        // The kernel of many tokens first.
        let mut choices = vec![gemm::choose(chip, shape, false)];
        if device.target == Target::Hopper {
            choices.extend(gemm::candidates(chip, shape));
        }
        choices.push(chosen);
        // Results that are added in memory replace the residual: compared where that is made anew each time.
        let in_place = |c: &Choice| matches!(c.boxes(), Some((_, true)));
        choices.retain(|c| (clusters || c.grid.cluster == 1) && !in_place(c));
        let size = product.stored.bytes();
        let row = size * product.columns;
        let mut first: Option<Vec<u8>> = None;
        let mut trials: Vec<Fp8Trial> = Vec::new();
        for (i, &choice) in choices.iter().enumerate() {
            if choices[..i].contains(&choice) {
                continue;
            }
            let launch = product.launch(self, choice)?;
            product.on_device.out.fill(0xFF)?;
            launch.submit(device, false)?;
            device.synchronize(choice.entry)?;
            let all: Vec<u8> = product.on_device.out.read(0, product.on_device.out.bytes())?;
            let (results, rest) = all.split_at(row * case.tokens);
            let wrong = product.wrong(&numbers(results, product.stored));
            let reference = first.get_or_insert_with(|| results.to_vec());
            let pairs = results.chunks(size).zip(reference.chunks(size));
            trials.push(Fp8Trial {
                kernel: choice.entry,
                chosen: choice == chosen,
                cluster: [choice.grid.cluster / choice.cluster_tokens.max(1), choice.cluster_tokens],
                blocks: choice.grid.blocks,
                wrong,
                differing: pairs.filter(|(a, b)| a != b).count(),
                spilled: rest.iter().any(|&b| b != 0xFF),
            });
        }
        Ok(trials)
    }
}
