//! What a step on a device may differ by from its definition on the same operands.

use dikast_core::graph::{DType, Graph, RowOp, Step, TensorId};
use dikast_core::numerics::int8::{Int8Mode, Int8Rows};
use serde::Serialize;

/// How far a step may be from its definition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tolerance {
    /// Largest relative Euclidean distance of a tensor of reals.
    pub real: f64,
    /// Largest share of codes that differ where the quantizer's input is computed in the same step: a value next to a
    /// rounding boundary may fall to either side.
    pub codes: f64,
    /// Largest relative Euclidean distance of the logits of a whole forward pass.
    pub logits: f64,
}

impl Tolerance {
    /// The device computes in f32, or with operands split so that it comes near.
    pub const F32: Self = Self { real: 2e-4, codes: 2e-3, logits: 1e-3 };
    /// The device rounds operands of products to f16.
    pub const F16: Self = Self { real: 5e-3, codes: 2e-3, logits: 5e-2 };
    /// Codes are quantized anew in every layer, so that flips of single codes reach the logits.
    pub fn quantized(self) -> Self {
        Self { logits: 0.2, ..self }
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Exact by the step's contract: not one bit may differ.
    Exact,
    /// Codes: the share that differs.
    Codes,
    /// Reals: the relative Euclidean distance.
    Real,
}

impl Rule {
    /// Name for a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Codes => "codes",
            Self::Real => "real",
        }
    }

    /// What is allowed.
    pub fn allowed(self, tolerance: &Tolerance) -> f64 {
        match self {
            Self::Exact => 0.0,
            Self::Codes => tolerance.codes,
            Self::Real => tolerance.real,
        }
    }

    /// The rule of a tensor that a step writes.
    pub(crate) fn of(graph: &Graph, step: &Step, output: TensorId, int8: Int8Rows) -> Self {
        match step {
            Step::Embed { segments: None, .. }
            | Step::SelectRows { .. }
            | Step::Concat { .. }
            | Step::MergeRows { .. }
            | Step::ReplaceRows { .. }
            | Step::Quantize { .. } => Self::Exact,
            Step::RotateQuantize { op: RowOp::Copy { .. }, rotation, .. }
                if rotation.mode == Int8Mode::Exact =>
            {
                Self::Exact
            }
            Step::RotateQuantize { rotation, .. }
                if rotation.mode == Int8Mode::Standard && int8 == Int8Rows::Unrounded =>
            {
                Self::Real
            }
            _ if matches!(graph.tensor(output).dtype, DType::F8E4M3 | DType::I8) => Self::Codes,
            _ => Self::Real,
        }
    }
}
