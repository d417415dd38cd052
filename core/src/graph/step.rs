//! The vocabulary: fused units of work with a precise numeric contract.
//!
//! The plain implementation in [`crate::cpu`] is the definition of each step. "Exact" below means the same bits on
//! every backend; everything else has the tolerance that the parity tests state. A row of the result never depends
//! on any other sequence of the batch, nor on the batch's sizes.

use super::operand::{
    Activation, Columns, Frequency, LstmDirection, Pool, RelativeBias, RotaryHeads, Rotation, RowOp,
};
use super::{TensorId, WeightId};

/// One fused step. Matrices are row-major; a weight matrix is `[out, in]`.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// `out[t] = table[ids[t]] (+ segment_table[segments[t]])`. Exact.
    Embed {
        /// `[rows]` I32, each less than the table's rows.
        ids: TensorId,
        /// `[vocabulary, D]`.
        table: WeightId,
        /// `[rows]` I32 segment ids and their `[segments, D]` table.
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
    /// `out = softmax(scale · q·kᵀ + bias)·v` per head and sequence (or frame of a picture), over keys of the same
    /// sequence; softmax in f32.
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
    /// A row function on its own, in f32.
    Rows {
        /// The function.
        op: RowOp,
        /// As its rows.
        out: TensorId,
    },
    /// A row function and the INT8 row quantizer in one pass: the row is rounded to BF16, rotated, `s = max|v| / 127`
    /// (at least 1e-30), codes `round(v / s)`. In mode `exact` exact in the rounded row; `standard` is exact where f32
    /// division is IEEE's. A row with a NaN or an infinity gets the scale NaN and codes of zero.
    ///
    /// A device that says so may leave `standard` codes unrounded: [`Int8Rows::Unrounded`](crate::numerics::int8::Int8Rows).
    RotateQuantize {
        /// The function.
        op: RowOp,
        /// Rotation and arithmetic.
        rotation: Rotation,
        /// `[rows, D]` I8 codes.
        codes: TensorId,
        /// `[rows]` scales.
        scales: TensorId,
        /// The unrounded, unrotated rows too, for projections that are not quantized.
        rows: Option<TensorId>,
    },
    /// INT8 product: `acc = Σ_k codes·W` exact in i32, then `out = f32(acc) · scales[row] · weight_scales[n] (+ bias)
    /// (+ residual)`, f32, in this order, each operation rounded on its own. Exact. Of codes that were left unrounded `acc`
    /// is a sum of f32.
    Int8Linear {
        /// `[rows, K]` I8 codes.
        codes: TensorId,
        /// `[rows]` scales.
        scales: TensorId,
        /// `[N, K]` I8.
        weight: WeightId,
        /// `[N, 1]`.
        weight_scales: WeightId,
        /// `[N]`.
        bias: Option<WeightId>,
        /// `[rows, N]`, added last.
        residual: Option<TensorId>,
        /// `[rows, N]`.
        out: TensorId,
    },
    /// `out = activation(first half) · second half` of the product of [`Step::Int8Linear`].
    Int8LinearGated {
        /// `[rows, K]` I8 codes.
        codes: TensorId,
        /// `[rows]` scales.
        scales: TensorId,
        /// `[2N, K]` I8.
        weight: WeightId,
        /// `[2N, 1]`.
        weight_scales: WeightId,
        /// `[2N]`.
        bias: Option<WeightId>,
        /// Of the first half.
        activation: Activation,
        /// `[rows, N]`.
        out: TensorId,
    },
    /// Depthwise causal convolution over the rows of each sequence and SiLU:
    /// `out[t, c] = silu(Σ_j w[c, 0, j] · x[t − (J−1) + j, c])`, zeros before the first row of a sequence.
    CausalConv {
        /// `[tokens, C]`.
        x: Columns,
        /// `[C, 1, J]`; the last tap is the current row's.
        weight: WeightId,
        /// `[sequences+1]` rows.
        offsets: TensorId,
        /// `[tokens, C]`.
        out: TensorId,
    },
    /// The gated delta rule. `x` holds queries and keys of `key_heads` heads and values of `value_heads` heads;
    /// value head `h` uses key head `h / (value_heads / key_heads)`. With `q̂ = q·rsqrt(Σq² + 1e-6)·d_k^(−1/2)`,
    /// `k̂ = k·rsqrt(Σk² + 1e-6)`, `β = sigmoid(b)`, `g = −e^(A_log)·softplus(a + dt_bias)` (softplus is the identity
    /// above 20), per sequence from `S = 0`, row by row:
    /// `S ← e^g·S; δ = β·(v − Sᵀk̂); S ← S + k̂·δᵀ; out = Sᵀq̂`. Computed in chunks of 64 rows, f32.
    GatedDelta {
        /// `[tokens, 2·key_heads·key_dim + value_heads·value_dim]`.
        x: TensorId,
        /// `[tokens, 2·value_heads]`: `a`, then `b`.
        gates: TensorId,
        /// `[value_heads]` `A_log`.
        decay: WeightId,
        /// `[value_heads]` `dt_bias`.
        decay_bias: WeightId,
        /// `[sequences+1]` rows.
        offsets: TensorId,
        /// Heads of queries and keys.
        key_heads: usize,
        /// Heads of values.
        value_heads: usize,
        /// Width of a query or key.
        key_dim: usize,
        /// Width of a value.
        value_dim: usize,
        /// `[tokens, value_heads·value_dim]`.
        out: TensorId,
    },
    /// Optional zero-centred RMS norm of each head, then rotary position: with `R` twice the number of frequencies,
    /// columns `i` and `i + R/2` (`i < R/2`) of a head turn by the angle of frequency `i`; the rest passes. All heads
    /// of the first part, then of the second, and so on, stand side by side in `out`.
    HeadRotary {
        /// The heads; all parts have the same rows.
        parts: Vec<RotaryHeads>,
        /// Added to the mean square.
        eps: f32,
        /// One for each pair of columns.
        frequencies: Vec<Frequency>,
        /// `[rows, axes]` I32.
        positions: TensorId,
        /// `[rows, Σ count·width]`.
        out: TensorId,
    },
    /// `out = softmax(scale · q·kᵀ)·v` per head over the rows of the same sequence up to the query's own; query head
    /// `h` uses key head `h / (heads / kv_heads)`. Softmax in f32.
    CausalAttention {
        /// `[tokens, heads·head_dim]`.
        q: Columns,
        /// `[tokens, kv_heads·head_dim]`.
        k: Columns,
        /// `[tokens, kv_heads·head_dim]`.
        v: Columns,
        /// `[sequences+1]` rows.
        offsets: TensorId,
        /// Query heads.
        heads: usize,
        /// Key and value heads.
        kv_heads: usize,
        /// Width of one head.
        head_dim: usize,
        /// Multiplies `q·k`.
        scale: f32,
        /// `[tokens, heads·head_dim]`.
        out: TensorId,
    },
    /// `out[r] = x[r] + Σ_i weights[r, i] · table[taps[r, i]]`: learned positions, bilinear.
    AddPositions {
        /// `[patches, D]`.
        x: TensorId,
        /// `[positions, D]`.
        table: WeightId,
        /// `[patches, 4]` I32.
        taps: TensorId,
        /// `[patches, 4]`.
        weights: TensorId,
        /// `[patches, D]`.
        out: TensorId,
    },
    /// Consecutive rows side by side: `[n·m, D]` as `[n, m·D]`. Exact; the same bytes.
    MergeRows {
        /// `[n·m, D]`.
        x: TensorId,
        /// `[n, m·D]`.
        out: TensorId,
    },
    /// `out = x`, but `out[rows[r]] = with[r]`; each row is named at most once. Exact.
    ReplaceRows {
        /// `[tokens, D]`.
        x: TensorId,
        /// `[n]` I32.
        rows: TensorId,
        /// `[n, D]`.
        with: TensorId,
        /// `[tokens, D]`.
        out: TensorId,
    },
    /// `out[l] = mean(table[ids[offsets[l]..offsets[l+1]]])`, summed in order; zeros for an empty list.
    PoolTableRows {
        /// `[n]` I32, each less than the table's rows.
        ids: TensorId,
        /// `[labels+1]` places in `ids`.
        offsets: TensorId,
        /// `[vocabulary, D]`.
        table: WeightId,
        /// `[labels, D]`.
        out: TensorId,
    },
    /// `out[g] = Σ_r softmax_r(scale · x[r]·query[g]) x[r]` over the rows of a group.
    SoftmaxPool {
        /// `[rows, D]`.
        x: TensorId,
        /// `[groups, D]`.
        query: TensorId,
        /// `[groups+1]` rows.
        offsets: TensorId,
        /// Multiplies the products.
        scale: f32,
        /// `[groups, D]`.
        out: TensorId,
    },
    /// The sum of matrices, from the first term on.
    Sum {
        /// At least two, all as `out`.
        terms: Vec<TensorId>,
        /// The sum.
        out: TensorId,
    },
    /// `out[r] = [f ; o ; f·o ; |f − o|]` with `f = left[owner[r]]`, `o = right[r]`.
    PairFeatures {
        /// `[groups, D]`.
        left: TensorId,
        /// `[rows, D]`.
        right: TensorId,
        /// `[rows]` I32 group of each row.
        owner: TensorId,
        /// `[rows, 4D]`.
        out: TensorId,
    },
    /// The joint schema head's logit of an option `r` of question `q = owner[r]` of sequence `s = sequence[q]`:
    /// `e^min(prior_scale, ln 100) · u(lexical[r])·u(question[q] + summary[s]) +
    /// sigmoid(gate)·(e^min(joint_scale, ln 100) · cos(field[q], option[r]) + residual[r])`, where
    /// `u(x) = x / max(‖x‖, 1e-12)` and the cosine's norms are at least 1e-8.
    JointScore {
        /// `[questions, H]` mean hidden state of the instruction.
        question: TensorId,
        /// `[sequences, H]` hidden state of the last row.
        summary: TensorId,
        /// `[questions]` I32 sequence of each question.
        sequence: TensorId,
        /// `[labels, H]` mean LM-head row of the option's tokens.
        lexical: TensorId,
        /// `[questions, W]`.
        field: TensorId,
        /// `[labels, W]`.
        option: TensorId,
        /// `[labels]` I32 question of each option.
        owner: TensorId,
        /// `[labels, 1]`.
        residual: TensorId,
        /// A scalar.
        prior_scale: WeightId,
        /// A scalar.
        joint_scale: WeightId,
        /// A scalar.
        gate: WeightId,
        /// `[labels, 1]`.
        out: TensorId,
    },
}
