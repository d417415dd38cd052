//! Building a graph: one method a step, outputs get their shapes from the operands.

mod clef;

use std::collections::HashMap;

pub use clef::{DeltaHeads, JointScales, JointScore};

use super::{
    Activation, Columns, DType, Dim, Elements, Graph, Input, InputKind, LstmDirection, Pool, RelativeBias,
    Residency, Step, Tensor, TensorId, Weight, WeightId,
};
use crate::Result;

/// A matrix quantized per row: codes and scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantized {
    /// `[rows, K]` E4M3 codes.
    pub codes: TensorId,
    /// `[rows]` scales.
    pub scales: TensorId,
}

/// Collects tensors, weights and steps; [`GraphBuilder::finish`] checks them.
#[derive(Debug)]
pub struct GraphBuilder {
    name: String,
    tensors: Vec<Tensor>,
    weights: Vec<Weight>,
    weight_ids: HashMap<String, WeightId>,
    steps: Vec<Step>,
    inputs: Vec<Input>,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tensors: Vec::new(),
            weights: Vec::new(),
            weight_ids: HashMap::new(),
            steps: Vec::new(),
            inputs: Vec::new(),
        }
    }

    /// Checks shapes, types and order.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] naming the step and the operand that does not fit.
    pub fn finish(self, output: TensorId) -> Result<Graph> {
        let graph = Graph {
            name: self.name,
            tensors: self.tensors,
            weights: self.weights,
            steps: self.steps,
            inputs: self.inputs,
            output,
        };
        super::check::check(&graph)?;
        Ok(graph)
    }

    /// The input of a kind; asked for again, the same tensor.
    pub fn input(&mut self, kind: InputKind) -> TensorId {
        if let Some(input) = self.inputs.iter().find(|i| i.kind == kind) {
            return input.tensor;
        }
        self.add_input(kind, kind.shape())
    }

    /// The input of patches, each of `values` pixels; asked for again, the same tensor.
    pub fn patches(&mut self, values: usize) -> TensorId {
        let kind = InputKind::Patches;
        if let Some(input) = self.inputs.iter().find(|i| i.kind == kind) {
            return input.tensor;
        }
        let mut shape = kind.shape();
        shape.push(values.into());
        self.add_input(kind, shape)
    }

    fn add_input(&mut self, kind: InputKind, shape: Vec<Dim>) -> TensorId {
        let tensor = self.tensor(kind.name(), kind.dtype(), shape);
        self.inputs.push(Input { tensor, kind });
        tensor
    }

    /// A tensor of the checkpoint.
    pub fn weight(&mut self, name: impl Into<String>, shape: &[usize]) -> WeightId {
        let name = name.into();
        self.add_weight(Weight {
            parts: vec![name.clone()],
            name,
            shape: shape.to_vec(),
            elements: Elements::Real,
            residency: Residency::Device,
        })
    }

    /// Any weight; asked for again by name, the same weight.
    pub fn add_weight(&mut self, weight: Weight) -> WeightId {
        if let Some(&id) = self.weight_ids.get(&weight.name) {
            return id;
        }
        let id = WeightId::new(self.weights.len());
        self.weight_ids.insert(weight.name.clone(), id);
        self.weights.push(weight);
        id
    }

    /// See [`Step::Embed`].
    pub fn embed(
        &mut self,
        name: &str,
        ids: TensorId,
        table: WeightId,
        segments: Option<(TensorId, WeightId)>,
    ) -> TensorId {
        let width = self.weights[table.index()].shape.get(1).copied().unwrap_or(0);
        let out = self.tensor(name, DType::F32, vec![self.rows(ids), width.into()]);
        self.push(Step::Embed { ids, table, segments, out }, out)
    }

    /// See [`Step::RmsNorm`].
    pub fn rms_norm(&mut self, name: &str, x: TensorId, weight: WeightId, eps: f32) -> TensorId {
        let out = self.like(name, x);
        self.push(Step::RmsNorm { x, weight, eps, out }, out)
    }

    /// See [`Step::RmsNormQuantize`].
    pub fn rms_norm_quantize(&mut self, name: &str, x: TensorId, weight: WeightId, eps: f32) -> Quantized {
        let Quantized { codes, scales } = self.quantized(name, x);
        self.steps.push(Step::RmsNormQuantize { x, weight, eps, codes, scales });
        Quantized { codes, scales }
    }

    /// See [`Step::Quantize`].
    pub fn quantize(&mut self, name: &str, x: TensorId) -> Quantized {
        let Quantized { codes, scales } = self.quantized(name, x);
        self.steps.push(Step::Quantize { x, codes, scales });
        Quantized { codes, scales }
    }

    /// See [`Step::LayerNorm`].
    pub fn layer_norm(
        &mut self,
        name: &str,
        x: TensorId,
        weight: WeightId,
        bias: WeightId,
        eps: f32,
    ) -> TensorId {
        let out = self.like(name, x);
        self.push(Step::LayerNorm { x, weight, bias, eps, out }, out)
    }

    /// See [`Step::Linear`].
    pub fn linear(
        &mut self,
        name: &str,
        x: TensorId,
        weight: WeightId,
        bias: Option<WeightId>,
        activation: Option<Activation>,
        residual: Option<TensorId>,
    ) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![self.rows(x), self.out_width(weight).into()]);
        self.push(Step::Linear { x, weight, bias, activation, residual, out }, out)
    }

    /// See [`Step::LinearGated`].
    pub fn linear_gated(
        &mut self,
        name: &str,
        x: TensorId,
        weight: WeightId,
        activation: Activation,
    ) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![self.rows(x), (self.out_width(weight) / 2).into()]);
        self.push(Step::LinearGated { x, weight, activation, out }, out)
    }

    /// See [`Step::QuantLinear`].
    pub fn quant_linear(
        &mut self,
        name: &str,
        x: Quantized,
        weight: WeightId,
        weight_scales: WeightId,
        residual: Option<TensorId>,
    ) -> TensorId {
        let Quantized { codes, scales } = x;
        let out = self.tensor(name, DType::F32, vec![self.rows(codes), self.out_width(weight).into()]);
        self.push(Step::QuantLinear { codes, scales, weight, weight_scales, residual, out }, out)
    }

    /// See [`Step::QuantLinearGated`].
    pub fn quant_linear_gated(
        &mut self,
        name: &str,
        x: Quantized,
        weight: WeightId,
        weight_scales: WeightId,
        activation: Activation,
    ) -> TensorId {
        let Quantized { codes, scales } = x;
        let out = self.tensor(name, DType::F32, vec![self.rows(codes), (self.out_width(weight) / 2).into()]);
        self.push(Step::QuantLinearGated { codes, scales, weight, weight_scales, activation, out }, out)
    }

    /// See [`Step::Attention`].
    #[allow(clippy::too_many_arguments, reason = "the operands of one step")]
    pub fn attention(
        &mut self,
        name: &str,
        (q, k, v): (Columns, Columns, Columns),
        (q_offsets, kv_offsets): (TensorId, TensorId),
        kv_lengths: Option<TensorId>,
        (heads, head_dim): (usize, usize),
        scale: f32,
        bias: Option<RelativeBias>,
    ) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![self.rows(q.tensor), (heads * head_dim).into()]);
        self.push(
            Step::Attention { q, k, v, q_offsets, kv_offsets, kv_lengths, heads, head_dim, scale, bias, out },
            out,
        )
    }

    /// See [`Step::SelectRows`].
    pub fn select_rows(&mut self, name: &str, x: TensorId, rows: TensorId) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![self.rows(rows), self.width(x).into()]);
        self.push(Step::SelectRows { x, rows, out }, out)
    }

    /// See [`Step::PoolSpans`].
    pub fn pool_spans(&mut self, name: &str, x: TensorId, spans: TensorId) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![self.rows(spans), self.width(x).into()]);
        self.push(Step::PoolSpans { x, spans, out }, out)
    }

    /// See [`Step::PoolText`].
    pub fn pool_text(&mut self, name: &str, x: TensorId, spans: TensorId, pool: Pool) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![self.rows(spans), self.width(x).into()]);
        self.push(Step::PoolText { x, spans, pool, out }, out)
    }

    /// See [`Step::BiLstm`].
    pub fn bi_lstm(
        &mut self,
        name: &str,
        x: TensorId,
        (offsets, lengths): (TensorId, TensorId),
        (forward, backward): (LstmDirection, LstmDirection),
    ) -> TensorId {
        let hidden = self.weights[forward.hidden.index()].shape.get(1).copied().unwrap_or(0);
        let out = self.tensor(name, DType::F32, vec![self.rows(x), (2 * hidden).into()]);
        self.push(Step::BiLstm { x, offsets, lengths, forward, backward, out }, out)
    }

    /// See [`Step::L2Normalize`].
    pub fn l2_normalize(&mut self, name: &str, x: TensorId, eps: f32) -> TensorId {
        let out = self.like(name, x);
        self.push(Step::L2Normalize { x, eps, out }, out)
    }

    /// See [`Step::Concat`].
    pub fn concat(
        &mut self,
        name: &str,
        left: TensorId,
        left_rows: Option<TensorId>,
        right: TensorId,
    ) -> TensorId {
        let width = self.width(left) + self.width(right);
        let out = self.tensor(name, DType::F32, vec![self.rows(right), width.into()]);
        self.push(Step::Concat { left, left_rows, right, out }, out)
    }

    /// See [`Step::PairProduct`].
    pub fn pair_product(
        &mut self,
        name: &str,
        text: TensorId,
        classes: TensorId,
        owner: TensorId,
    ) -> TensorId {
        let width = self.width(classes) / 2 * 3;
        let out = self.tensor(name, DType::F32, vec![self.rows(classes), width.into()]);
        self.push(Step::PairProduct { text, classes, owner, out }, out)
    }

    /// See [`Step::HopfieldMix`].
    pub fn hopfield_mix(
        &mut self,
        name: &str,
        (query, key, value): (TensorId, TensorId, TensorId),
        classes: TensorId,
        offsets: TensorId,
        beta: f32,
    ) -> TensorId {
        let out = self.like(name, classes);
        self.push(Step::HopfieldMix { query, key, value, classes, offsets, beta, out }, out)
    }

    /// See [`Step::Dot`].
    pub fn dot(&mut self, name: &str, text: TensorId, classes: TensorId, owner: TensorId) -> TensorId {
        let out = self.tensor(name, DType::F32, vec![self.rows(classes), 1.into()]);
        self.push(Step::Dot { text, classes, owner, out }, out)
    }

    /// See [`Step::Scale`].
    pub fn scale(&mut self, name: &str, x: TensorId, by: WeightId) -> TensorId {
        let out = self.like(name, x);
        self.push(Step::Scale { x, by, out }, out)
    }

    /// All columns of a matrix.
    pub fn columns(&self, tensor: TensorId) -> Columns {
        Columns { tensor, start: 0, width: self.width(tensor) }
    }

    /// Width of a matrix; 0 when it is not known.
    pub fn width(&self, id: TensorId) -> usize {
        match self.tensors[id.index()].shape.last() {
            Some(Dim::Fixed(n)) => *n,
            _ => 0,
        }
    }

    pub(super) fn rows(&self, id: TensorId) -> Dim {
        self.tensors[id.index()].shape[0]
    }

    pub(super) fn out_width(&self, weight: WeightId) -> usize {
        self.weights[weight.index()].shape.first().copied().unwrap_or(0)
    }

    pub(super) fn like(&mut self, name: &str, x: TensorId) -> TensorId {
        self.tensor(name, DType::F32, self.tensors[x.index()].shape.clone())
    }

    fn quantized(&mut self, name: &str, x: TensorId) -> Quantized {
        let shape = self.tensors[x.index()].shape.clone();
        let codes = self.tensor(&format!("{name}.codes"), DType::F8E4M3, shape);
        let scales = self.tensor(&format!("{name}.scales"), DType::F32, vec![self.rows(x)]);
        Quantized { codes, scales }
    }

    pub(super) fn tensor(&mut self, name: &str, dtype: DType, shape: Vec<Dim>) -> TensorId {
        let id = TensorId::new(self.tensors.len());
        self.tensors.push(Tensor { name: name.to_owned(), dtype, shape });
        id
    }

    pub(super) fn push(&mut self, step: Step, out: TensorId) -> TensorId {
        self.steps.push(step);
        out
    }
}
