//! The steps of CLEF models.

use super::{GraphBuilder, Quantized};
use crate::graph::{
    Activation, Columns, DType, Dim, Frequency, Heads, RotaryHeads, Rotation, RowOp, Step, TensorId, WeightId,
};

/// Operands of [`Step::GatedDelta`] besides its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaHeads {
    /// `[value_heads]` `A_log`.
    pub decay: WeightId,
    /// `[value_heads]` `dt_bias`.
    pub decay_bias: WeightId,
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Heads of values.
    pub value_heads: usize,
    /// Width of a query or key.
    pub key_dim: usize,
    /// Width of a value.
    pub value_dim: usize,
}

/// Operands of [`Step::JointScore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JointScore {
    /// `[questions, H]`.
    pub question: TensorId,
    /// `[sequences, H]`.
    pub summary: TensorId,
    /// `[questions]`.
    pub sequence: TensorId,
    /// `[labels, H]`.
    pub lexical: TensorId,
    /// `[questions, W]`.
    pub field: TensorId,
    /// `[labels, W]`.
    pub option: TensorId,
    /// `[labels]`.
    pub owner: TensorId,
    /// `[labels, 1]`.
    pub residual: TensorId,
}

/// The scalars of [`Step::JointScore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JointScales {
    /// Logarithm of the prior's weight.
    pub prior: WeightId,
    /// Logarithm of the cosine's weight.
    pub joint: WeightId,
    /// Before its sigmoid.
    pub gate: WeightId,
}

impl GraphBuilder {
    /// See [`Step::Rows`].
    pub fn row_op(&mut self, name: &str, op: RowOp) -> TensorId {
        let out = self.like(name, op.x());
        self.push(Step::Rows { op, out }, out)
    }

    /// See [`Step::RotateQuantize`]; the unquantized rows are `NAME.rows`.
    pub fn rotate_quantize(
        &mut self,
        name: &str,
        op: RowOp,
        rotation: Rotation,
        keep_rows: bool,
    ) -> (Quantized, Option<TensorId>) {
        let shape = self.tensors[op.x().index()].shape.clone();
        let codes = self.tensor(&format!("{name}.codes"), DType::I8, shape);
        let scales = self.tensor(&format!("{name}.scales"), DType::F32, vec![self.rows(op.x())]);
        let rows = keep_rows.then(|| self.like(&format!("{name}.rows"), op.x()));
        self.steps.push(Step::RotateQuantize { op, rotation, codes, scales, rows });
        (Quantized { codes, scales }, rows)
    }

    /// See [`Step::Int8Linear`].
    pub fn int8_linear(
        &mut self,
        name: &str,
        x: Quantized,
        (weight, weight_scales): (WeightId, WeightId),
        bias: Option<WeightId>,
        residual: Option<TensorId>,
    ) -> TensorId {
        let Quantized { codes, scales } = x;
        let out = self.tensor(name, DType::F32, vec![self.rows(codes), self.out_width(weight).into()]);
        self.push(Step::Int8Linear { codes, scales, weight, weight_scales, bias, residual, out }, out)
    }

    /// See [`Step::Int8LinearGated`].
    pub fn int8_linear_gated(
        &mut self,
        name: &str,
        x: Quantized,
        (weight, weight_scales): (WeightId, WeightId),
        bias: Option<WeightId>,
        activation: Activation,
    ) -> TensorId {
        let Quantized { codes, scales } = x;
        let out = self.tensor(name, DType::F32, vec![self.rows(codes), (self.out_width(weight) / 2).into()]);
        self.push(Step::Int8LinearGated { codes, scales, weight, weight_scales, bias, activation, out }, out)
    }

    /// See [`Step::CausalConv`].
    pub fn causal_conv(&mut self, name: &str, x: Columns, weight: WeightId, offsets: TensorId) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![self.rows(x.tensor), x.width.into()]);
        self.push(Step::CausalConv { x, weight, offsets, out }, out)
    }

    /// See [`Step::GatedDelta`].
    pub fn gated_delta(
        &mut self,
        name: &str,
        x: TensorId,
        gates: TensorId,
        offsets: TensorId,
        heads: DeltaHeads,
    ) -> TensorId {
        let DeltaHeads { decay, decay_bias, key_heads, value_heads, key_dim, value_dim } = heads;
        let out = self.tensor(name, DType::F32, vec![self.rows(x), (value_heads * value_dim).into()]);
        let step = Step::GatedDelta {
            x,
            gates,
            decay,
            decay_bias,
            offsets,
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            out,
        };
        self.push(step, out)
    }

    /// See [`Step::HeadRotary`].
    pub fn head_rotary(
        &mut self,
        name: &str,
        parts: Vec<RotaryHeads>,
        eps: f32,
        frequencies: Vec<Frequency>,
        positions: TensorId,
    ) -> TensorId {
        let width: usize = parts.iter().map(|p| p.heads.count * p.heads.width).sum();
        let out = self.tensor(name, DType::F32, vec![self.rows(positions), width.into()]);
        self.push(Step::HeadRotary { parts, eps, frequencies, positions, out }, out)
    }

    /// See [`Step::CausalAttention`].
    pub fn causal_attention(
        &mut self,
        name: &str,
        (q, k, v): (Columns, Columns, Columns),
        offsets: TensorId,
        (heads, kv_heads, head_dim): (usize, usize, usize),
        scale: f32,
    ) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![self.rows(q.tensor), (heads * head_dim).into()]);
        self.push(Step::CausalAttention { q, k, v, offsets, heads, kv_heads, head_dim, scale, out }, out)
    }

    /// See [`Step::AddPositions`].
    pub fn add_positions(
        &mut self,
        name: &str,
        x: TensorId,
        table: WeightId,
        (taps, weights): (TensorId, TensorId),
    ) -> TensorId {
        let out = self.like(name, x);
        self.push(Step::AddPositions { x, table, taps, weights, out }, out)
    }

    /// See [`Step::MergeRows`].
    pub fn merge_rows(&mut self, name: &str, x: TensorId, factor: usize, rows: Dim) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![rows, (factor * self.width(x)).into()]);
        self.push(Step::MergeRows { x, out }, out)
    }

    /// See [`Step::ReplaceRows`].
    pub fn replace_rows(&mut self, name: &str, x: TensorId, rows: TensorId, with: TensorId) -> TensorId {
        let out = self.like(name, x);
        self.push(Step::ReplaceRows { x, rows, with, out }, out)
    }

    /// See [`Step::PoolTableRows`].
    pub fn pool_table_rows(
        &mut self,
        name: &str,
        (ids, offsets): (TensorId, TensorId),
        rows: Dim,
        table: WeightId,
    ) -> TensorId {
        let width = self.weights[table.index()].shape.get(1).copied().unwrap_or(0);
        let out = self.tensor(name, DType::F32, vec![rows, width.into()]);
        self.push(Step::PoolTableRows { ids, offsets, table, out }, out)
    }

    /// See [`Step::SoftmaxPool`].
    pub fn softmax_pool(
        &mut self,
        name: &str,
        x: TensorId,
        query: TensorId,
        offsets: TensorId,
        scale: f32,
    ) -> TensorId {
        let out = self.like(name, query);
        self.push(Step::SoftmaxPool { x, query, offsets, scale, out }, out)
    }

    /// See [`Step::Sum`].
    pub fn sum(&mut self, name: &str, terms: Vec<TensorId>) -> TensorId {
        let out = self.like(name, terms[0]);
        self.push(Step::Sum { terms, out }, out)
    }

    /// See [`Step::PairFeatures`].
    pub fn pair_features(
        &mut self,
        name: &str,
        left: TensorId,
        right: TensorId,
        owner: TensorId,
    ) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![self.rows(right), (4 * self.width(right)).into()]);
        self.push(Step::PairFeatures { left, right, owner, out }, out)
    }

    /// See [`Step::JointScore`].
    pub fn joint_score(&mut self, name: &str, operands: JointScore, scales: JointScales) -> TensorId {
        let JointScore { question, summary, sequence, lexical, field, option, owner, residual } = operands;
        let out = self.like(name, residual);
        let step = Step::JointScore {
            question,
            summary,
            sequence,
            lexical,
            field,
            option,
            owner,
            residual,
            prior_scale: scales.prior,
            joint_scale: scales.joint,
            gate: scales.gate,
            out,
        };
        self.push(step, out)
    }

    /// The same columns of `count` heads, side by side from `start` on.
    pub fn heads(&self, tensor: TensorId, start: usize, width: usize, count: usize) -> Heads {
        Heads { tensor, start, stride: width, width, count }
    }
}
