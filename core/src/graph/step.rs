//! The vocabulary: fused units of work with a precise numeric contract.
//!
//! The plain implementation in [`crate::cpu`] is the definition of each step. "Exact" below means the same bits on
//! every backend; everything else has the tolerance that the parity tests state. A row of the result never depends
//! on any other sequence of the batch, nor on the batch's sizes.

use super::{TensorId, WeightId};

/// An elementwise function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `0.5·x·(1 + erf(x/√2))`.
    GeluErf,
    /// `0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
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

/// One fused step. Matrices are row-major; a weight matrix is `[out, in]`.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// `out[t] = table[ids[t]] (+ segment_table[segments[t]])`. Exact. `[tokens, D]`.
    Embed {
        /// `[tokens]` I32, each less than the table's rows.
        ids: TensorId,
        /// `[vocabulary, D]`.
        table: WeightId,
        /// `[tokens]` I32 segment ids and their `[segments, D]` table.
        segments: Option<(TensorId, WeightId)>,
        /// `[tokens, D]`.
        out: TensorId,
    },
    /// `out = w · (x · rsqrt(mean(x²) + eps))`, all in f32; no mean subtraction, no bias.
    RmsNorm {
        /// `[rows, D]`.
        x: TensorId,
        /// `[D]`.
        weight: WeightId,
        /// Added to the mean square.
        eps: f32,
        /// `[rows, D]`.
        out: TensorId,
    },
    /// [`Step::RmsNorm`] and [`Step::Quantize`] in one pass.
    RmsNormQuantize {
        /// `[rows, D]`.
        x: TensorId,
        /// `[D]`.
        weight: WeightId,
        /// Added to the mean square.
        eps: f32,
        /// `[rows, D]` E4M3 codes.
        codes: TensorId,
        /// `[rows]` scales.
        scales: TensorId,
    },
    /// Per-row dynamic FP8: `s = max|x| / 448` (1 for a row of zeros), `code = e4m3(clamp(x / s, ±448))`, IEEE
    /// division, round to nearest even. Exact in `x`.
    Quantize {
        /// `[rows, D]`.
        x: TensorId,
        /// `[rows, D]` E4M3 codes.
        codes: TensorId,
        /// `[rows]` scales.
        scales: TensorId,
    },
    /// `out = (x − mean) / √(var + eps) · w + b`, population variance.
    LayerNorm {
        /// `[rows, D]`.
        x: TensorId,
        /// `[D]`.
        weight: WeightId,
        /// `[D]`.
        bias: WeightId,
        /// Added to the variance.
        eps: f32,
        /// `[rows, D]`.
        out: TensorId,
    },
    /// `out = activation(x·Wᵀ + b) + residual`, f32 accumulation.
    Linear {
        /// `[rows, K]`.
        x: TensorId,
        /// `[N, K]`.
        weight: WeightId,
        /// `[N]`.
        bias: Option<WeightId>,
        /// Applied after the bias.
        activation: Option<Activation>,
        /// `[rows, N]`, added last.
        residual: Option<TensorId>,
        /// `[rows, N]`.
        out: TensorId,
    },
    /// `out = activation(x·W₀ᵀ) · (x·W₁ᵀ)` with `W = [W₀; W₁]`.
    LinearGated {
        /// `[rows, K]`.
        x: TensorId,
        /// `[2N, K]`.
        weight: WeightId,
        /// Of the first half.
        activation: Activation,
        /// `[rows, N]`.
        out: TensorId,
    },
    /// FP8 product: `p = Σ_k e4m3(codes)·e4m3(W)`, summed exactly and rounded once to f32 (a tensor core's sum may
    /// differ by 2⁻¹²·Σ|ab|), then `out = (p · scales[row]) · weight_scales[n] + residual`, f32, in this order.
    QuantLinear {
        /// `[rows, K]` E4M3 codes.
        codes: TensorId,
        /// `[rows]` scales.
        scales: TensorId,
        /// `[N, K]` E4M3.
        weight: WeightId,
        /// `[N, 1]`.
        weight_scales: WeightId,
        /// `[rows, N]`, added last.
        residual: Option<TensorId>,
        /// `[rows, N]`.
        out: TensorId,
    },
    /// [`Step::LinearGated`] with the product of [`Step::QuantLinear`].
    QuantLinearGated {
        /// `[rows, K]` E4M3 codes.
        codes: TensorId,
        /// `[rows]` scales.
        scales: TensorId,
        /// `[2N, K]` E4M3.
        weight: WeightId,
        /// `[2N, 1]`.
        weight_scales: WeightId,
        /// Of the first half.
        activation: Activation,
        /// `[rows, N]`.
        out: TensorId,
    },
    /// `out = softmax(scale · q·kᵀ + bias)·v` per head and sequence, over keys of the same sequence; softmax in f32.
    /// A query without keys gets zeros.
    Attention {
        /// `[q_rows, heads·head_dim]`.
        q: Columns,
        /// `[kv_rows, heads·head_dim]`.
        k: Columns,
        /// `[kv_rows, heads·head_dim]`.
        v: Columns,
        /// `[sequences+1]` query rows.
        q_offsets: TensorId,
        /// `[sequences+1]` key rows.
        kv_offsets: TensorId,
        /// `[sequences]` keys that count, from the first key of the sequence; all when absent.
        kv_lengths: Option<TensorId>,
        /// Heads.
        heads: usize,
        /// Width of one head.
        head_dim: usize,
        /// Multiplies `q·k`.
        scale: f32,
        /// Added before the softmax; query and key rows are then the same rows.
        bias: Option<RelativeBias>,
        /// `[q_rows, heads·head_dim]`.
        out: TensorId,
    },
    /// `out[r] = x[rows[r]]`. Exact.
    SelectRows {
        /// `[n, D]`.
        x: TensorId,
        /// `[rows]` I32.
        rows: TensorId,
        /// `[rows, D]`.
        out: TensorId,
    },
    /// `out[c] = mean(x[start..end])`, summed in row order; zeros for an empty span.
    PoolSpans {
        /// `[n, D]`.
        x: TensorId,
        /// `[labels, 2]` I32.
        spans: TensorId,
        /// `[labels, D]`.
        out: TensorId,
    },
    /// One vector per sequence from its text rows and the zero rows appended to them.
    PoolText {
        /// `[n, D]`.
        x: TensorId,
        /// `[sequences, 3]` I32: first row, one past the last, zero rows appended.
        spans: TensorId,
        /// The reduction.
        pool: Pool,
        /// `[sequences, D]`.
        out: TensorId,
    },
    /// Bidirectional LSTM over the first `lengths[s]` rows of each sequence, states from zero;
    /// `out = [forward ; backward]`, zero in the rows beyond.
    BiLstm {
        /// `[n, D]`.
        x: TensorId,
        /// `[sequences+1]` rows.
        offsets: TensorId,
        /// `[sequences]` rows that count.
        lengths: TensorId,
        /// First to last row.
        forward: LstmDirection,
        /// Last to first row.
        backward: LstmDirection,
        /// `[n, 2h]`.
        out: TensorId,
    },
    /// `out = x / (‖x‖₂ + eps)` per row.
    L2Normalize {
        /// `[rows, D]`.
        x: TensorId,
        /// Added to the norm.
        eps: f32,
        /// `[rows, D]`.
        out: TensorId,
    },
    /// `out[r] = [left[left_rows[r]] ; right[r]]` (`left[r]` without `left_rows`). Exact.
    Concat {
        /// `[n, A]`.
        left: TensorId,
        /// `[rows]` I32.
        left_rows: Option<TensorId>,
        /// `[rows, B]`.
        right: TensorId,
        /// `[rows, A+B]`.
        out: TensorId,
    },
    /// The weighted-dot scorer's features from halves 1 and 2: `[t₁ ; c₁ ; t₂·c₂]` with `t = text[owner]`.
    PairProduct {
        /// `[sequences, 2D]`.
        text: TensorId,
        /// `[labels, 2D]`.
        classes: TensorId,
        /// `[labels]` I32 sequence of each label.
        owner: TensorId,
        /// `[labels, 3D]`.
        out: TensorId,
    },
    /// The Hopfield scorer's mix: `a = softmax(beta · query·key[owner])` over the labels of a sequence,
    /// `out = classes + a · value[owner]`.
    HopfieldMix {
        /// `[labels, D]`.
        query: TensorId,
        /// `[sequences, D]`.
        key: TensorId,
        /// `[sequences, D]`.
        value: TensorId,
        /// `[labels, D]`.
        classes: TensorId,
        /// `[sequences+1]` labels.
        offsets: TensorId,
        /// Inverse temperature.
        beta: f32,
        /// `[labels, D]`.
        out: TensorId,
    },
    /// `out[l] = text[owner[l]] · classes[l]`.
    Dot {
        /// `[sequences, D]`.
        text: TensorId,
        /// `[labels, D]`.
        classes: TensorId,
        /// `[labels]` I32 sequence of each label.
        owner: TensorId,
        /// `[labels, 1]`.
        out: TensorId,
    },
    /// `out = x · by`.
    Scale {
        /// Any shape.
        x: TensorId,
        /// A scalar.
        by: WeightId,
        /// As `x`.
        out: TensorId,
    },
}

impl Step {
    /// The step's name in listings and profiles.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embed { .. } => "Embed",
            Self::RmsNorm { .. } => "RmsNorm",
            Self::RmsNormQuantize { .. } => "RmsNormQuantize",
            Self::Quantize { .. } => "Quantize",
            Self::LayerNorm { .. } => "LayerNorm",
            Self::Linear { .. } => "Linear",
            Self::LinearGated { .. } => "LinearGated",
            Self::QuantLinear { .. } => "QuantLinear",
            Self::QuantLinearGated { .. } => "QuantLinearGated",
            Self::Attention { .. } => "Attention",
            Self::SelectRows { .. } => "SelectRows",
            Self::PoolSpans { .. } => "PoolSpans",
            Self::PoolText { .. } => "PoolText",
            Self::BiLstm { .. } => "BiLstm",
            Self::L2Normalize { .. } => "L2Normalize",
            Self::Concat { .. } => "Concat",
            Self::PairProduct { .. } => "PairProduct",
            Self::HopfieldMix { .. } => "HopfieldMix",
            Self::Dot { .. } => "Dot",
            Self::Scale { .. } => "Scale",
        }
    }

    /// Tensors that the step writes.
    pub fn outputs(&self) -> Vec<TensorId> {
        match *self {
            Self::RmsNormQuantize { codes, scales, .. } | Self::Quantize { codes, scales, .. } => {
                vec![codes, scales]
            }
            Self::Embed { out, .. }
            | Self::RmsNorm { out, .. }
            | Self::LayerNorm { out, .. }
            | Self::Linear { out, .. }
            | Self::LinearGated { out, .. }
            | Self::QuantLinear { out, .. }
            | Self::QuantLinearGated { out, .. }
            | Self::Attention { out, .. }
            | Self::SelectRows { out, .. }
            | Self::PoolSpans { out, .. }
            | Self::PoolText { out, .. }
            | Self::BiLstm { out, .. }
            | Self::L2Normalize { out, .. }
            | Self::Concat { out, .. }
            | Self::PairProduct { out, .. }
            | Self::HopfieldMix { out, .. }
            | Self::Dot { out, .. }
            | Self::Scale { out, .. } => vec![out],
        }
    }

    /// Tensors that the step reads.
    pub fn reads(&self) -> Vec<TensorId> {
        match *self {
            Self::Embed { ids, segments, .. } => {
                std::iter::once(ids).chain(segments.map(|(s, _)| s)).collect()
            }
            Self::RmsNorm { x, .. }
            | Self::RmsNormQuantize { x, .. }
            | Self::Quantize { x, .. }
            | Self::LayerNorm { x, .. }
            | Self::LinearGated { x, .. }
            | Self::L2Normalize { x, .. }
            | Self::Scale { x, .. } => vec![x],
            Self::Linear { x, residual, .. } => std::iter::once(x).chain(residual).collect(),
            Self::QuantLinear { codes, scales, residual, .. } => {
                [codes, scales].into_iter().chain(residual).collect()
            }
            Self::QuantLinearGated { codes, scales, .. } => vec![codes, scales],
            Self::Attention { q, k, v, q_offsets, kv_offsets, kv_lengths, .. } => {
                [q.tensor, k.tensor, v.tensor, q_offsets, kv_offsets].into_iter().chain(kv_lengths).collect()
            }
            Self::SelectRows { x, rows, .. } => vec![x, rows],
            Self::PoolSpans { x, spans, .. } | Self::PoolText { x, spans, .. } => vec![x, spans],
            Self::BiLstm { x, offsets, lengths, .. } => vec![x, offsets, lengths],
            Self::Concat { left, left_rows, right, .. } => {
                [left, right].into_iter().chain(left_rows).collect()
            }
            Self::PairProduct { text, classes, owner, .. } | Self::Dot { text, classes, owner, .. } => {
                vec![text, classes, owner]
            }
            Self::HopfieldMix { query, key, value, classes, offsets, .. } => {
                vec![query, key, value, classes, offsets]
            }
        }
    }

    /// Weights that the step reads.
    pub fn weights(&self) -> Vec<WeightId> {
        match *self {
            Self::Embed { table, segments, .. } => {
                std::iter::once(table).chain(segments.map(|(_, w)| w)).collect()
            }
            Self::RmsNorm { weight, .. }
            | Self::RmsNormQuantize { weight, .. }
            | Self::LinearGated { weight, .. } => vec![weight],
            Self::LayerNorm { weight, bias, .. } => vec![weight, bias],
            Self::Linear { weight, bias, .. } => std::iter::once(weight).chain(bias).collect(),
            Self::QuantLinear { weight, weight_scales, .. }
            | Self::QuantLinearGated { weight, weight_scales, .. } => {
                vec![weight, weight_scales]
            }
            Self::Attention { bias, .. } => bias.map(|b| b.table).into_iter().collect(),
            Self::BiLstm { forward, backward, .. } => [forward, backward]
                .into_iter()
                .flat_map(|d| [d.input, d.hidden, d.input_bias, d.hidden_bias])
                .collect(),
            Self::Scale { by, .. } => vec![by],
            Self::Quantize { .. }
            | Self::SelectRows { .. }
            | Self::PoolSpans { .. }
            | Self::PoolText { .. }
            | Self::L2Normalize { .. }
            | Self::Concat { .. }
            | Self::PairProduct { .. }
            | Self::HopfieldMix { .. }
            | Self::Dot { .. } => vec![],
        }
    }
}
