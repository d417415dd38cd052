//! Row functions, on their own and before the INT8 quantizer.

use dikast_core::graph::{Columns, Heads, RowOp, Step, TensorId};
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::{Error, Result};

use super::Builder;
use crate::args::{self, Address};
use crate::launch::{Grid, Launch};
use crate::layout::Stored;

/// Columns of a row that a warp holds, and neighbours that a thread holds.
pub(super) const WARP_ELEMENTS: usize = 1024;
const SPAN: usize = 16;
/// Shared memory of a warp.
pub(super) const ROOM_BYTES: usize = 2 * (16 * 20 + 16) * 4;
/// Most warps of a block where rows are not just copied.
const MOST_WARPS: usize = 8;
/// Widest head whose norm a warp takes, and the number of columns that heads must divide.
const WIDEST_HEAD: usize = 512;

args::arguments! {
    /// `row_op.cuh`
    RowFunction {
        x: Address, gate: Address, weight: Address, share: f64,
        width: i32, stored: i32, gate_pitch: i32, gate_head: i32, gate_stride: i32, gate_stored: i32,
        head: i32, eps: f32,
    }
    /// `row_op.cu`
    Rows { op: RowFunction, out: Address, rows: Address, stored: i32, pad: i32 }
    /// `rotate.cuh`
    RotateQuantize {
        op: RowFunction, kept: Address, codes: Address, scales: Address, rows: Address,
        capacity: i32, digits: i32, kept_stored: i32, pad: i32,
    }
}

/// Warps of a multiprocessor with the registers of the quantizers that compute, and of those that do not.
const COMPUTING_WARPS: usize = 24;
const COPYING_WARPS: usize = 32;

/// A quantizer: its file and entry, and its grid.
pub(super) struct Quantizer {
    pub(super) file: &'static str,
    pub(super) entry: &'static str,
    pub(super) grid: Grid,
}

/// What a quantizer does with its rows, and how these and their gates are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantized {
    Copy(Stored),
    RmsNorm,
    GatedRmsNorm([Stored; 2]),
    SigmoidGate([Stored; 2]),
}

/// The quantizer in groups of 4 to the `digits` of `rows` rows `width` wide on a chip of this many multiprocessors; `None` where there is none.
pub(super) fn quantizer(
    op: Quantized,
    (digits, mode): (i32, Int8Mode),
    width: usize,
    rows: usize,
    processors: usize,
) -> Option<Quantizer> {
    let warps = width.div_ceil(WARP_ELEMENTS);
    if warps == 0 || !width.is_multiple_of(SPAN) {
        return None;
    }
    let stage = |stored: Stored| WARP_ELEMENTS * stored.bytes();
    // The most warps of a block, warps of a multiprocessor, and what a warp keeps in shared memory beside its room.
    let exact = mode == Int8Mode::Exact;
    let (file, [standard, in_integers], most, together, bytes) = match op {
        Quantized::Copy(stored) => {
            // Fewer registers let more blocks of many warps in.
            let (names, most, together) = match (stored, warps) {
                (Stored::F32, 0..=8) => {
                    (["rotate_quantize_copy_f32_8", "rotate_quantize_copy_f32_exact_8"], 8, COPYING_WARPS)
                }
                (Stored::F32, _) => {
                    (["rotate_quantize_copy_f32_32", "rotate_quantize_copy_f32_exact_32"], 32, 32)
                }
                (_, 0..=8) => {
                    (["rotate_quantize_copy_bf16_8", "rotate_quantize_copy_bf16_exact_8"], 8, COPYING_WARPS)
                }
                (_, 9..=17) if (1..5).contains(&digits) => {
                    (["rotate_quantize_copy_bf16_17", "rotate_quantize_copy_bf16_exact_17"], 17, 34)
                }
                _ => (["rotate_quantize_copy_bf16_32", "rotate_quantize_copy_bf16_exact_32"], 32, 32),
            };
            ("rotate_quantize", names, most, together, stage(stored))
        }
        Quantized::RmsNorm => {
            let names = ["rotate_quantize_rms_norm_8", "rotate_quantize_rms_norm_exact_8"];
            ("rotate_quantize", names, MOST_WARPS, COMPUTING_WARPS, 2 * stage(Stored::F32))
        }
        Quantized::GatedRmsNorm(stored) => {
            let names = ["rotate_quantize_gated_rms_norm_8", "rotate_quantize_gated_rms_norm_exact_8"];
            let bytes = stored.into_iter().map(stage).sum::<usize>() + stage(Stored::BF16);
            ("rotate_quantize_gate", names, MOST_WARPS, COMPUTING_WARPS, bytes)
        }
        Quantized::SigmoidGate(stored) => {
            let names = ["rotate_quantize_sigmoid_gate_8", "rotate_quantize_sigmoid_gate_exact_8"];
            ("rotate_quantize_gate", names, MOST_WARPS, COMPUTING_WARPS, stored.into_iter().map(stage).sum())
        }
    };
    if warps > most {
        return None;
    }
    // As many rows for every block.
    let turns = rows.div_ceil(processors.max(1) * (together / warps).max(1)).max(1);
    Some(Quantizer {
        file,
        entry: if exact { in_integers } else { standard },
        grid: Grid::new(rows.div_ceil(turns), 1, 32 * warps).shared(warps * (ROOM_BYTES + bytes)),
    })
}

impl Builder<'_> {
    pub(super) fn row_function(&self, step: &Step) -> Result<Launch> {
        match *step {
            Step::Rows { op, out } => {
                let arguments = Rows {
                    op: self.row_op(op)?,
                    out: self.tensor(out)?,
                    rows: self.rows(op.x())?,
                    stored: self.real(out)? as i32,
                    pad: 0,
                };
                let entry = match op {
                    RowOp::Copy { .. } => "row_op_copy",
                    RowOp::RmsNorm { .. } => "row_op_rms_norm",
                    RowOp::GatedRmsNorm { .. } => "row_op_gated_rms_norm",
                    RowOp::SigmoidGate { .. } => "row_op_sigmoid_gate",
                };
                self.launch("row_op", entry, self.by_warps(op.x(), MOST_WARPS)?, &arguments)
            }
            Step::RotateQuantize { op, rotation, codes, scales, rows } => {
                if rows.is_some() && matches!(op, RowOp::Copy { .. }) {
                    return Err(self
                        .device
                        .lacks("a second copy of rows that are quantized as they are".to_owned()));
                }
                // A group is a power of four.
                let digits = rotation.group.map_or(0, |g| g.size().ilog2() as i32 / 2);
                let arguments = RotateQuantize {
                    op: self.row_op(op)?,
                    kept: rows.map_or(Ok(0), |r| self.tensor(r))?,
                    codes: self.tensor(codes)?,
                    scales: self.tensor(scales)?,
                    rows: self.rows(op.x())?,
                    capacity: self.codes_capacity(codes),
                    digits,
                    kept_stored: rows.map_or(Ok(Stored::F32), |r| self.real(r))? as i32,
                    pad: 0,
                };
                let stored = self.real(op.x())?;
                let quantized = match op {
                    RowOp::Copy { .. } => Quantized::Copy(stored),
                    RowOp::RmsNorm { .. } if stored == Stored::F32 => Quantized::RmsNorm,
                    RowOp::RmsNorm { .. } => {
                        return Err(self.device.lacks(format!("norms and codes of rows in {stored:?}")));
                    }
                    RowOp::GatedRmsNorm { gate, .. } => {
                        Quantized::GatedRmsNorm([stored, self.real(gate.tensor)?])
                    }
                    RowOp::SigmoidGate { gate, .. } => {
                        Quantized::SigmoidGate([stored, self.real(gate.tensor)?])
                    }
                };
                let (width, rows) = (self.cols(op.x()), self.capacity(op.x()));
                let lacks = || self.device.lacks(format!("codes of rows {width} wide"));
                let Quantizer { file, entry, grid } =
                    quantizer(quantized, (digits, rotation.mode), width, rows, self.device.processors)
                        .ok_or_else(lacks)?;
                if grid.shared > self.device.shared {
                    return Err(lacks());
                }
                self.launch(file, entry, grid, &arguments)
            }
            _ => Err(Error::Internal("not a row function".to_owned())),
        }
    }

    /// One block a row, a warp for every 1024 columns.
    fn by_warps(&self, x: TensorId, most: usize) -> Result<Grid> {
        let width = self.cols(x);
        let widest = most * WARP_ELEMENTS;
        if width == 0 || !width.is_multiple_of(SPAN) || width > widest {
            return Err(self.device.lacks(format!(
                "row functions of rows {width} wide (a multiple of {SPAN}, at most {widest}, is needed)"
            )));
        }
        let warps = width.div_ceil(WARP_ELEMENTS);
        Ok(Grid::new(self.capacity(x), 1, 32 * warps).shared(warps * ROOM_BYTES))
    }

    fn row_op(&self, op: RowOp) -> Result<RowFunction> {
        let x = op.x();
        let width = self.cols(x);
        let mut arguments = RowFunction {
            x: self.tensor(x)?,
            gate: 0,
            weight: 0,
            share: 1.0 / width as f64,
            width: width as i32,
            stored: self.real(x)? as i32,
            gate_pitch: 0,
            gate_head: SPAN as i32,
            gate_stride: SPAN as i32,
            gate_stored: 0,
            head: width as i32,
            eps: 0.0,
        };
        match op {
            RowOp::Copy { .. } => {}
            RowOp::RmsNorm { weight, eps, .. } => {
                arguments.weight = self.vector(weight)?;
                arguments.eps = eps;
            }
            RowOp::GatedRmsNorm { gate, weight, eps, .. } => {
                let head = self.graph.weight(weight).shape.iter().product::<usize>();
                if head < SPAN || !head.is_power_of_two() || head > WIDEST_HEAD {
                    return Err(self.device.lacks(format!(
                        "norms of heads {head} wide (a power of two from {SPAN} to {WIDEST_HEAD} is needed)"
                    )));
                }
                arguments.weight = self.vector(weight)?;
                arguments.eps = eps;
                arguments.share = 1.0 / head as f64;
                arguments.head = head as i32;
                let Columns { tensor, start, width } = gate;
                self.set_gate(&mut arguments, Heads { tensor, start, stride: width, width, count: 1 })?;
            }
            RowOp::SigmoidGate { gate, .. } => self.set_gate(&mut arguments, gate)?,
        }
        Ok(arguments)
    }

    fn set_gate(&self, arguments: &mut RowFunction, gate: Heads) -> Result<()> {
        let stored = self.real(gate.tensor)?;
        let pitch = self.cols(gate.tensor);
        let whole = |n: usize| (n * stored.bytes()).is_multiple_of(16);
        if !gate.width.is_multiple_of(SPAN) || ![gate.start, gate.stride, pitch].into_iter().all(whole) {
            return Err(self.device.lacks(format!(
                "gates of heads {} wide, {} apart from column {} on of {pitch}",
                gate.width, gate.stride, gate.start
            )));
        }
        arguments.gate = self.tensor(gate.tensor)? + (gate.start * stored.bytes()) as u64;
        arguments.gate_pitch = pitch as i32;
        arguments.gate_head = gate.width as i32;
        arguments.gate_stride = gate.stride as i32;
        arguments.gate_stored = stored as i32;
        Ok(())
    }

    /// Format of a tensor of reals that these kernels read or write.
    pub(super) fn real(&self, id: TensorId) -> Result<Stored> {
        match self.stored(id) {
            Stored::F16 => Err(self.device.lacks(format!("{} in binary16", self.graph.tensor(id).name))),
            stored => Ok(stored),
        }
    }
}
