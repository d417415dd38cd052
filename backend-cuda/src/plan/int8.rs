//! INT8 products.

use dikast_core::graph::{DType, Graph, Sizes, Step};
use dikast_core::{Error, Result};

use super::{Builder, activation_number};
use crate::args::{Address, arguments};
use crate::forms::Form;
use crate::gemm::Chip;
use crate::int8_gemm::{self, End, Exit, Operands, Shape};
use crate::launch::Launch;
use crate::layout::{self, Stored};

arguments! {
    /// `sm90_int8_gemm.cu`, `sm89_int8_gemm.cu`
    Int8Gemm {
        codes: Address, scales: Address, weight: Address, weight_scales: Address, bias: Address, residual: Address,
        out: Address, rows: Address, partials: Address, flags: Address,
        capacity: i32, k_blocks: i32, columns: i32, gated: i32, activation: i32,
        row_tiles: i32, cluster_tokens: i32, stages: i32, slots: i32, stream: i32, stored: i32, pad: i32,
    }
}

impl Builder<'_> {
    pub(super) fn int8_linear(&self, step: &Step) -> Result<Launch> {
        let (codes, scales, weight, weight_scales, bias, residual, gate, out) = match *step {
            Step::Int8Linear { codes, scales, weight, weight_scales, bias, residual, out } => {
                (codes, scales, weight, weight_scales, bias, residual, None, out)
            }
            Step::Int8LinearGated { codes, scales, weight, weight_scales, bias, activation, out } => {
                (codes, scales, weight, weight_scales, bias, None, Some(activation), out)
            }
            _ => return Err(Error::Internal("not an INT8 product".to_owned())),
        };
        let (columns, stored) = (self.cols(out), self.stored(out));
        if stored == Stored::F16 || residual.is_some_and(|r| self.stored(r) != Stored::F32) {
            return Err(self.device.lacks("INT8 products with binary16 results or a 16-bit residual"));
        }
        let half = if gate.is_some() { columns } else { 0 };
        let k_blocks = layout::k_blocks(self.cols(codes), 1);
        let end = End { columns, gate, bias: bias.is_some(), residual: residual.is_some(), stored };
        let shape = Shape {
            operands: Operands::Int8,
            weight_rows: layout::weight_rows(if gate.is_some() { 2 * columns } else { columns }, half),
            k_blocks,
            tokens: self.capacity(codes),
            exit: Exit::of(Operands::Int8, end),
        };
        let chip = Chip {
            target: self.device.target,
            processors: self.device.processors,
            shared: self.device.shared,
        };
        let choice = if self.portable { int8_gemm::portable(shape) } else { int8_gemm::choose(chip, shape) };
        let rows_form = Form::RowScales { half };
        let arguments = Int8Gemm {
            codes: self.tensor(codes)?,
            scales: self.tensor(scales)?,
            weight: self.resident.address((weight, Form::Codes { half }))?.0,
            weight_scales: self.resident.address((weight_scales, rows_form))?.0,
            bias: bias.map_or(Ok(0), |b| self.resident.address((b, rows_form)).map(|a| a.0))?,
            residual: residual.map_or(Ok(0), |r| self.tensor(r))?,
            out: self.tensor(out)?,
            rows: self.rows(codes)?,
            partials: self.scratch(),
            flags: self.resident.flags.address(),
            capacity: self.codes_capacity(codes),
            k_blocks: k_blocks as i32,
            columns: columns as i32,
            gated: i32::from(gate.is_some()),
            activation: activation_number(gate),
            row_tiles: choice.row_tiles as i32,
            cluster_tokens: choice.cluster_tokens as i32,
            stages: choice.stages as i32,
            slots: choice.slots as i32,
            stream: i32::from(choice.partials > 0),
            stored: stored as i32,
            pad: 0,
        };
        self.launch(choice.kernel, choice.entry, choice.grid, &arguments)
    }
}

/// Bytes that the step needs while it runs.
pub(super) fn scratch_bytes(graph: &Graph, step: &Step, bucket: &Sizes) -> usize {
    let (Step::Int8Linear { codes, .. } | Step::Int8LinearGated { codes, .. }) = *step else { return 0 };
    debug_assert_eq!(graph.tensor(codes).dtype, DType::I8);
    let width: usize = graph.tensor(codes).shape.iter().skip(1).map(|d| d.bind(bucket)).product();
    int8_gemm::scratch_bytes(layout::k_blocks(width, 1))
}
