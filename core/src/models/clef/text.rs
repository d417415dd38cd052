//! The decoder: Qwen3.5's hybrid of Gated DeltaNet and gated attention.
//!
//! ```text
//! layer:  h += mixer(norm(h))
//!         h += down(silu(gate n) · (up n))                                          n = norm(h)
//! linear: y = out(gated_norm(delta(conv(qkv n), a n, b n), z n))
//! full:   y = o(attention(rotary(norm(q n)), rotary(norm(k n)), v n) · sigmoid(gate n))
//! ```

use super::projection::{Projection, Projections};
use super::tensors::TEXT;
use super::{LayerType, TextConfig};
use crate::Result;
use crate::checkpoint::Weights;
use crate::graph::{
    Activation, Columns, DeltaHeads, Elements, Frequency, GraphBuilder, Heads, InputKind, Residency,
    RotaryHeads, RowOp, TensorId, Weight,
};
use crate::numerics::int8::Int8Mode;

/// The token table.
pub(super) fn embed(b: &mut GraphBuilder, c: &TextConfig) -> TensorId {
    let table = format!("{TEXT}embed_tokens.weight");
    let table = b.add_weight(Weight {
        name: table.clone(),
        parts: vec![table],
        shape: vec![c.vocab_size, c.hidden_size],
        elements: Elements::Real,
        residency: Residency::HostRows,
    });
    let ids = b.input(InputKind::TokenIds);
    b.embed("embed", ids, table, None)
}

/// All layers and the final norm: the hidden state of every token, `[tokens, hidden_size]`.
pub(super) fn decoder(
    b: &mut GraphBuilder,
    c: &TextConfig,
    weights: &Weights,
    mode: Int8Mode,
    mut h: TensorId,
) -> Result<TensorId> {
    let eps = c.rms_norm_eps;
    for (i, kind) in c.layer_types.iter().enumerate() {
        let layer = Layer { c, weights, mode, path: format!("{TEXT}layers.{i}"), name: format!("layer.{i}") };
        let norm = b.weight(format!("{}.input_layernorm.weight", layer.path), &[c.hidden_size]);
        let op = RowOp::RmsNorm { x: h, weight: norm, eps };
        h = match kind {
            LayerType::Linear => layer.delta_net(b, op, h)?,
            LayerType::Full => layer.attention(b, op, h)?,
        };
        let norm = b.weight(format!("{}.post_attention_layernorm.weight", layer.path), &[c.hidden_size]);
        h = layer.feed_forward(b, RowOp::RmsNorm { x: h, weight: norm, eps }, h)?;
    }
    let norm = b.weight(format!("{TEXT}norm.weight"), &[c.hidden_size]);
    Ok(b.row_op("norm", RowOp::RmsNorm { x: h, weight: norm, eps }))
}

struct Layer<'a> {
    c: &'a TextConfig,
    weights: &'a Weights,
    mode: Int8Mode,
    path: String,
    name: String,
}

impl Layer<'_> {
    fn projections<'a, const N: usize>(
        &'a self,
        name: &'a str,
        modules: [(&str, usize, usize); N],
    ) -> Result<Projections<'a>> {
        let part = |(module, out, k): (&str, usize, usize)| Projection {
            module: format!("{}.{module}", self.path),
            out,
            k,
        };
        Projections::new(name, self.weights, self.mode, modules.map(part))
    }

    fn delta_net(&self, b: &mut GraphBuilder, op: RowOp, h: TensorId) -> Result<TensorId> {
        let (c, name) = (self.c, &self.name);
        let (d, heads, values) = (c.hidden_size, c.linear_num_value_heads, c.linear_value_dim());
        let path = format!("{}.linear_attn", self.path);
        let offsets = b.input(InputKind::SequenceOffsets);
        let inner = format!("{name}.qkvz");
        let modules =
            [("linear_attn.in_proj_qkv", c.linear_conv_dim(), d), ("linear_attn.in_proj_z", values, d)];
        let (columns, rows) = self.projections(&inner, modules)?.of(b, op, true);
        let (qkv, z) = (columns[0], columns[1]);
        let gates = b.add_weight(Weight {
            name: format!("{name}.ab.weight"),
            parts: ["a", "b"].map(|g| format!("{path}.in_proj_{g}.weight")).to_vec(),
            shape: vec![2 * heads, d],
            elements: Elements::Real,
            residency: Residency::Device,
        });
        // `of` gives the rows when they are asked for.
        let rows = rows.unwrap_or(h);
        let gates = b.linear(&format!("{name}.ab"), rows, gates, None, None, None);
        let taps =
            b.weight(format!("{path}.conv1d.weight"), &[c.linear_conv_dim(), 1, c.linear_conv_kernel_dim]);
        let conv = b.causal_conv(&format!("{name}.conv"), qkv, taps, offsets);
        let delta = DeltaHeads {
            decay: b.weight(format!("{path}.A_log"), &[heads]),
            decay_bias: b.weight(format!("{path}.dt_bias"), &[heads]),
            key_heads: c.linear_num_key_heads,
            value_heads: heads,
            key_dim: c.linear_key_head_dim,
            value_dim: c.linear_value_head_dim,
        };
        let delta = b.gated_delta(&format!("{name}.delta"), conv, gates, offsets, delta);
        let norm = b.weight(format!("{path}.norm.weight"), &[c.linear_value_head_dim]);
        let op = RowOp::GatedRmsNorm { x: delta, gate: z, weight: norm, eps: c.rms_norm_eps };
        let out = format!("{name}.mixed");
        Ok(self.projections(&out, [("linear_attn.out_proj", d, values)])?.residual(b, op, h))
    }

    fn attention(&self, b: &mut GraphBuilder, op: RowOp, h: TensorId) -> Result<TensorId> {
        let (c, name) = (self.c, &self.name);
        let (d, width) = (c.hidden_size, c.head_dim);
        let (heads, kv_heads) = (c.num_attention_heads, c.num_key_value_heads);
        let inner = format!("{name}.qkv");
        let modules = [
            ("self_attn.q_proj", 2 * c.query_dim(), d),
            ("self_attn.k_proj", c.key_value_dim(), d),
            ("self_attn.v_proj", c.key_value_dim(), d),
        ];
        let (columns, _) = self.projections(&inner, modules)?.of(b, op, false);
        let (q, k, v) = (columns[0], columns[1], columns[2]);
        // Each head's queries are followed by its gates.
        let queries = Heads { tensor: q.tensor, start: q.start, stride: 2 * width, width, count: heads };
        let gate = Heads { start: q.start + width, ..queries };
        let keys = b.heads(k.tensor, k.start, width, kv_heads);
        let norm = |b: &mut GraphBuilder, which: &str| {
            Some(b.weight(format!("{}.self_attn.{which}_norm.weight", self.path), &[width]))
        };
        let parts = vec![
            RotaryHeads { heads: queries, norm: norm(b, "q") },
            RotaryHeads { heads: keys, norm: norm(b, "k") },
        ];
        let positions = b.input(InputKind::TokenPositions);
        let qk = b.head_rotary(&format!("{name}.qk"), parts, c.rms_norm_eps, frequencies(c), positions);
        let part = |start, width| Columns { tensor: qk, start, width };
        let operands = (part(0, c.query_dim()), part(c.query_dim(), c.key_value_dim()), v);
        let offsets = b.input(InputKind::SequenceOffsets);
        let scale = 1.0 / (width as f32).sqrt();
        let context = b.causal_attention(
            &format!("{name}.context"),
            operands,
            offsets,
            (heads, kv_heads, width),
            scale,
        );
        let out = format!("{name}.mixed");
        let op = RowOp::SigmoidGate { x: context, gate };
        Ok(self.projections(&out, [("self_attn.o_proj", d, c.query_dim())])?.residual(b, op, h))
    }

    fn feed_forward(&self, b: &mut GraphBuilder, op: RowOp, h: TensorId) -> Result<TensorId> {
        let (d, ff) = (self.c.hidden_size, self.c.intermediate_size);
        let inner = format!("{}.gated", self.name);
        let modules = [("mlp.gate_proj", ff, d), ("mlp.up_proj", ff, d)];
        let gated = self.projections(&inner, modules)?.gated(b, op, Activation::Silu)?;
        let out = format!("{}.out", self.name);
        Ok(self.projections(&out, [("mlp.down_proj", d, ff)])?.residual(b, RowOp::Copy { x: gated }, h))
    }
}

/// Interleaved M-RoPE: frequency `i` is `theta^(−2i/R)` and follows the rows of the grid at `i ≡ 1 (mod 3)` below
/// `3·section[1]`, its columns at `i ≡ 2` below `3·section[2]`, and time elsewhere.
fn frequencies(c: &TextConfig) -> Vec<Frequency> {
    let [_, rows, columns] = c.mrope_section;
    let axis = |i: usize| match i % 3 {
        1 if i < 3 * rows => 1,
        2 if i < 3 * columns => 2,
        _ => 0,
    };
    let inverse = |i: usize| c.rope_theta.powf(-2.0 * i as f64 / c.rotary_dim as f64) as f32;
    (0..c.rotary_dim / 2).map(|i| Frequency { axis: axis(i), inverse: inverse(i) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_interleaved() {
        let c = TextConfig {
            vocab_size: 1,
            hidden_size: 1,
            intermediate_size: 1,
            layer_types: vec![],
            num_attention_heads: 1,
            num_key_value_heads: 1,
            head_dim: 256,
            linear_num_key_heads: 1,
            linear_num_value_heads: 1,
            linear_key_head_dim: 1,
            linear_value_head_dim: 1,
            linear_conv_kernel_dim: 4,
            rope_theta: 1e7,
            rotary_dim: 64,
            mrope_section: [11, 11, 10],
            rms_norm_eps: 1e-6,
            max_position_embeddings: 1,
        };
        let frequencies = frequencies(&c);
        let on = |axis| frequencies.iter().filter(|f| f.axis == axis).count();
        assert_eq!([on(0), on(1), on(2)], c.mrope_section);
        assert_eq!((frequencies[29].axis, frequencies[30].axis, frequencies[31].axis), (2, 0, 1));
        assert_eq!(frequencies[0].inverse, 1.0);
    }
}
