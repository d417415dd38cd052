//! What steps are made of besides tensors: activations, column ranges, rotations, row functions.

use super::{TensorId, WeightId};
use crate::numerics::hadamard::Group;
use crate::numerics::int8::Int8Mode;

/// An elementwise function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `0.5·x·(1 + erf(x/√2))`.
    GeluErf,
    /// `0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
    /// `x / (1 + e⁻ˣ)`.
    Silu,
}

/// Reduction of a text part to one vector, taken over its rows and the zero rows appended to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pool {
    /// First row.
    First,
    /// Last row; zero when zero rows are appended.
    Last,
    /// Mean.
    Avg,
    /// Sum.
    Sum,
    /// Largest value per column.
    Max,
    /// `√(mean(x²))`.
    Rms,
    /// Largest absolute value per column.
    AbsMax,
    /// Mean absolute value.
    AbsAvg,
}

/// A range of columns of a matrix: a part of a fused projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Columns {
    /// The matrix.
    pub tensor: TensorId,
    /// First column.
    pub start: usize,
    /// Number of columns.
    pub width: usize,
}

/// T5's bidirectional relative position bias.
///
/// `bias[h, i, j] = table[bucket(j − i), h]`; with `B` buckets and saturation distance `M`: the base is `B/2` for
/// `j > i`, else 0; `a = |j − i|`; `a < B/4` gives `a`, else `B/4 + ⌊ln(a/(B/4)) / ln(M/(B/4)) · (B/4)⌋` in f32,
/// at most `B/2 − 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RelativeBias {
    /// `[buckets, heads]`.
    pub table: WeightId,
    /// `B`.
    pub buckets: usize,
    /// `M`.
    pub max_distance: usize,
}

impl RelativeBias {
    /// The bucket of a key `distance = key − query` positions away; the logarithm and its scaling in f32.
    pub fn bucket(&self, distance: i64) -> usize {
        let half = self.buckets / 2;
        let base = if distance > 0 { half } else { 0 };
        let a = distance.unsigned_abs() as usize;
        let exact = half / 2;
        if a < exact {
            return base + a;
        }
        let octaves =
            libm::logf(a as f32 / exact as f32) / (self.max_distance as f64 / exact as f64).ln() as f32;
        base + (exact + (octaves * (half - exact) as f32) as usize).min(half - 1)
    }
}

/// Weights of one direction of an LSTM with hidden width `h`; gate order input, forget, cell, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LstmDirection {
    /// `[4h, in]`.
    pub input: WeightId,
    /// `[4h, h]`.
    pub hidden: WeightId,
    /// `[4h]`.
    pub input_bias: WeightId,
    /// `[4h]`.
    pub hidden_bias: WeightId,
}

/// The same columns of several heads of a matrix: head `h` is `width` columns from `start + h·stride` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Heads {
    /// The matrix.
    pub tensor: TensorId,
    /// First column of the first head.
    pub start: usize,
    /// Columns from one head to the next.
    pub stride: usize,
    /// Columns of a head.
    pub width: usize,
    /// Heads.
    pub count: usize,
}

/// One rotary frequency: the angle of a row is `position[axis] · inverse`, a product of f32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frequency {
    /// Column of the positions.
    pub axis: usize,
    /// Radians per position.
    pub inverse: f32,
}

/// Heads that [`Step::HeadRotary`](super::Step::HeadRotary) turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RotaryHeads {
    /// The heads.
    pub heads: Heads,
    /// `[width]` of a zero-centred RMS norm of each head before the rotation.
    pub norm: Option<WeightId>,
}

/// How a row becomes INT8 codes: rounded to BF16, rotated in groups, scaled by its largest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rotation {
    /// Columns of one group of the regular Hadamard rotation; no rotation when absent.
    pub group: Option<Group>,
    /// The arithmetic.
    pub mode: Int8Mode,
}

/// A function from rows to rows, computed in f32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowOp {
    /// The row as it is.
    Copy {
        /// `[rows, D]`.
        x: TensorId,
    },
    /// `x · rsqrt(mean(x²) + eps) · (1 + w)`: weights are stored around zero.
    RmsNorm {
        /// `[rows, D]`.
        x: TensorId,
        /// `[D]`.
        weight: WeightId,
        /// Added to the mean square.
        eps: f32,
    },
    /// Per head `x · rsqrt(mean(x²) + eps) · w · silu(gate)`.
    GatedRmsNorm {
        /// `[rows, D]`, heads as wide as the weight.
        x: TensorId,
        /// `[rows, D]`.
        gate: Columns,
        /// Width of a head.
        weight: WeightId,
        /// Added to the mean square.
        eps: f32,
    },
    /// `x · sigmoid(gate)`.
    SigmoidGate {
        /// `[rows, heads·width]`.
        x: TensorId,
        /// The gates of each head.
        gate: Heads,
    },
}

impl RowOp {
    /// The rows that it reads; the result is as wide.
    pub fn x(&self) -> TensorId {
        match *self {
            Self::Copy { x }
            | Self::RmsNorm { x, .. }
            | Self::GatedRmsNorm { x, .. }
            | Self::SigmoidGate { x, .. } => x,
        }
    }

    /// Tensors that it reads.
    pub fn reads(&self) -> Vec<TensorId> {
        match *self {
            Self::Copy { x } | Self::RmsNorm { x, .. } => vec![x],
            Self::GatedRmsNorm { x, gate, .. } => vec![x, gate.tensor],
            Self::SigmoidGate { x, gate } => vec![x, gate.tensor],
        }
    }

    /// Weights that it reads.
    pub fn weights(&self) -> Vec<WeightId> {
        match *self {
            Self::RmsNorm { weight, .. } | Self::GatedRmsNorm { weight, .. } => vec![weight],
            Self::Copy { .. } | Self::SigmoidGate { .. } => vec![],
        }
    }
}
