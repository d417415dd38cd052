//! FP8 products by every kernel that can make them, their results compared bit for bit: for checks.

use dikast_core::{Error, Result};

use crate::args;
use crate::backend::CudaBackend;
use crate::gemm::{self, Chip, Choice, Exit, Shape};
use crate::layout::{self, Stored};
use crate::memory::DeviceMemory;
use crate::product;
use crate::profile::{ProductKind, random_codes};

/// What a kernel made of a product.
#[derive(Debug, Clone, PartialEq)]
pub struct ProductTrial {
    /// Kernel entry point.
    pub kernel: &'static str,
    /// Row tiles and token tiles of a cluster.
    pub cluster: [usize; 2],
    /// Results with other bits than the first kernel's, and the first of them: token, column.
    pub different: usize,
    /// Where the first of them is.
    pub first: Option<[usize; 2]>,
    /// Results that nobody wrote, or that are no numbers.
    pub not_finite: usize,
    /// Whether rows beyond the tokens were written.
    pub spilled: bool,
}

impl CudaBackend {
    /// The product of the first `tokens` of `room` × `k` codes and `n` × `k` codes by every tile, cluster and exit of the
    /// Hopper kernels. Codes are random, scales and residual of very different sizes, subnormal ones among them.
    ///
    /// # Errors
    /// As for any work on the device.
    pub fn try_products(
        &self,
        (n, k): (usize, usize),
        (tokens, room): (usize, usize),
        kind: ProductKind,
    ) -> Result<Vec<ProductTrial>> {
        let gated = kind == ProductKind::Gated;
        let stored = kind.stored();
        let columns = if gated { n / 2 } else { n };
        let half = if gated { columns } else { 0 };
        let (weight_rows, k_blocks) = (layout::weight_rows(n, half), layout::k_blocks(k, 1));
        let added = kind == ProductKind::Residual;
        let chip = Chip {
            target: self.device.target,
            processors: self.device.processors,
            shared: self.device.shared,
        };
        let exit = Exit::of(columns, gated, stored, added, self.options.large_tiles);
        let choices = gemm::every(chip, Shape { weight_rows, k_blocks, tokens: room, exit });

        let memory = |bytes| DeviceMemory::new(&self.device, bytes);
        let (weights, codes) =
            (memory(layout::weight_bytes(n, half, k_blocks))?, memory(layout::codes_bytes(room, k))?);
        weights.write(0, &random_codes(weights.bytes()))?;
        codes.write(0, &random_codes(codes.bytes()))?;
        let sizes = [1e-3, 1e-41, 1e-6, 0.0, 1e-20, 1e-3, 1.0];
        let of_sizes = |count: usize| (0..count).map(|i| sizes[i % 7] as f32).collect::<Vec<_>>();
        let (scales, row_scales) = (memory(4 * layout::token_capacity(room))?, memory(4 * weight_rows)?);
        scales.write(0, &of_sizes(layout::token_capacity(room)))?;
        row_scales.write(0, &vec![1e-3f32; weight_rows])?;
        let elements = columns * room;
        let beside: Vec<f32> = (0..elements)
            .map(|i| (i as f32 * 0.618).sin() * sizes[(i / columns * 3 + i % columns / 5) % 7] as f32)
            .collect();
        let residual = memory(4 * elements)?;
        let out = memory(stored.bytes() * elements)?;
        let rows = memory(4)?;
        rows.write(0, &[tokens as i32])?;

        let mut first: Option<Vec<u32>> = None;
        let mut trials = Vec::new();
        for choice in choices {
            residual.write(0, &beside)?;
            out.fill(0xFF)?;
            let in_place = matches!(choice.boxes(), Some((_, true)));
            let target = if in_place { &residual } else { &out };
            let product = args::Fp8Gemm {
                codes: codes.address(),
                scales: scales.address(),
                weight: weights.address(),
                weight_scales: row_scales.address(),
                residual: if added { residual.address() } else { 0 },
                out: target.address(),
                rows: rows.address(),
                capacity: layout::token_capacity(room) as i32,
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
            let launch = product::launch(&self.device, &self.kernels, &choice, product, (stored, room))?;
            launch.submit(&self.device, false)?;
            let ours = bits(target, stored, columns * tokens)?;
            trials.push(compared(
                &choice,
                &ours,
                first.get_or_insert_with(|| ours.clone()),
                (columns, stored),
            ));
        }
        Ok(trials)
    }
}

/// Stored numbers as the bits of float32 ones, or of 16-bit ones.
fn bits(memory: &DeviceMemory, stored: Stored, count: usize) -> Result<Vec<u32>> {
    match stored {
        Stored::F32 => memory.read(0, count),
        Stored::F16 | Stored::BF16 => Ok(memory.read::<u16>(0, count)?.into_iter().map(u32::from).collect()),
        Stored::Split => Err(Error::Internal("products do not write split rows".to_owned())),
    }
}

fn compared(
    choice: &Choice,
    ours: &[u32],
    first: &[u32],
    (columns, stored): (usize, Stored),
) -> ProductTrial {
    let exponent = match stored {
        Stored::F32 | Stored::Split => 0x7F80_0000,
        Stored::F16 => 0x7C00,
        Stored::BF16 => 0x7F80,
    };
    let different = ours.iter().zip(first).filter(|(a, b)| a != b).count();
    let at = ours.iter().zip(first).position(|(a, b)| a != b);
    ProductTrial {
        kernel: choice.entry,
        cluster: [choice.grid.cluster / choice.cluster_tokens.max(1), choice.cluster_tokens],
        different,
        first: at.map(|i| [i / columns, i % columns]),
        not_finite: ours.iter().filter(|&&x| x & exponent == exponent).count(),
        spilled: false,
    }
}
