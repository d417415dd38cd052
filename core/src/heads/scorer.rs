//! The scorers: one logit per class.

use super::{Text, linear};
use crate::graph::{Activation, GraphBuilder, InputKind, TensorId};
use crate::models::gliclass::{GliClassConfig, Scorer};

/// Width of the first hidden layer of the scorers that do not take `scorer_mlp_hidden_size`.
const MLP_HIDDEN: usize = 256;
/// Inverse temperature of the Hopfield scorer.
const HOPFIELD_BETA: f32 = 4.0;
/// Epsilon of the cross-attention scorer's norms.
const LAYER_NORM_EPS: f32 = 1e-5;

/// Adds the configured scorer; returns `[labels, 1]`.
pub(super) fn score(
    b: &mut GraphBuilder,
    config: &GliClassConfig,
    text: &Text,
    classes: TensorId,
) -> TensorId {
    match config.scorer {
        Scorer::Simple => {
            let owner = b.input(InputKind::LabelSequences);
            b.dot("logits", text.tensor, classes, owner)
        }
        Scorer::WeightedDot => weighted_dot(b, config.hidden_size, text.tensor, classes),
        Scorer::Mlp => {
            let owner = b.input(InputKind::LabelSequences);
            let pair = b.concat("scorer.pair", text.tensor, Some(owner), classes);
            mlp(b, "mlp", pair, [MLP_HIDDEN, MLP_HIDDEN / 2], Activation::Relu)
        }
        Scorer::Hopfield => hopfield(b, config.hidden_size, text.tensor, classes),
        Scorer::CrossAttn => cross_attention(b, config, text, classes),
    }
}

/// `z = W₂ relu(W₁ [t₁ ; c₁ ; t₂·c₂] + b₁) + b₂` with `t = A·text`, `c = B·class`, each `2D` wide.
fn weighted_dot(b: &mut GraphBuilder, d: usize, text: TensorId, classes: TensorId) -> TensorId {
    let owner = b.input(InputKind::LabelSequences);
    let text = linear(b, "scorer.text", text, "model.scorer.proj_text", 2 * d, None);
    let classes = linear(b, "scorer.classes", classes, "model.scorer.proj_label", 2 * d, None);
    let pair = b.pair_product("scorer.pair", text, classes, owner);
    let hidden = linear(b, "scorer.hidden", pair, "model.scorer.out_mlp.0", 4 * d, Some(Activation::Relu));
    linear(b, "logits", hidden, "model.scorer.out_mlp.3", 1, None)
}

fn hopfield(b: &mut GraphBuilder, d: usize, text: TensorId, classes: TensorId) -> TensorId {
    let mut project = |name: &str, x| {
        let weight = b.weight(format!("model.scorer.{name}_proj.weight"), &[d, d]);
        b.linear(&format!("scorer.{name}"), x, weight, None, None, None)
    };
    let (q, k, v) = (project("q", classes), project("k", text), project("v", text));
    let offsets = b.input(InputKind::LabelOffsets);
    let mixed = b.hopfield_mix("scorer.mixed", (q, k, v), classes, offsets, HOPFIELD_BETA);
    mlp(b, "mlp", mixed, [MLP_HIDDEN, MLP_HIDDEN / 2], Activation::Relu)
}

/// Each class attends to the text rows; the values are not normed.
fn cross_attention(
    b: &mut GraphBuilder,
    config: &GliClassConfig,
    text: &Text,
    classes: TensorId,
) -> TensorId {
    let (d, heads) = (config.hidden_size, config.scorer_num_heads);
    let head_dim = d / heads;
    let q_in = norm(b, "q_norm", classes);
    let k_in = norm(b, "kv_norm", text.tensor);
    let q = linear(b, "scorer.q", q_in, "model.scorer.q", d, None);
    let k = linear(b, "scorer.k", k_in, "model.scorer.k", d, None);
    let v = linear(b, "scorer.v", text.tensor, "model.scorer.v", d, None);
    let operands = (b.columns(q), b.columns(k), b.columns(v));
    let offsets = (b.input(InputKind::LabelOffsets), text.offsets);
    let scale = 1.0 / (head_dim as f32).sqrt();
    let context =
        b.attention("scorer.context", operands, offsets, Some(text.lengths), (heads, head_dim), scale, None);
    let context = linear(b, "scorer.out", context, "model.scorer.out", d, None);
    let context = norm(b, "norm", context);
    let pair = b.concat("scorer.pair", context, None, classes);
    let hidden = config.scorer_mlp_hidden_size;
    mlp(b, "score_mlp", pair, [hidden, hidden / 2], Activation::GeluErf)
}

fn norm(b: &mut GraphBuilder, name: &str, x: TensorId) -> TensorId {
    let d = b.width(x);
    let weight = b.weight(format!("model.scorer.{name}.weight"), &[d]);
    let bias = b.weight(format!("model.scorer.{name}.bias"), &[d]);
    b.layer_norm(&format!("scorer.{name}"), x, weight, bias, LAYER_NORM_EPS)
}

/// Three layers, numbered 0, 2 and 4 in the checkpoint.
fn mlp(
    b: &mut GraphBuilder,
    module: &str,
    x: TensorId,
    widths: [usize; 2],
    activation: Activation,
) -> TensorId {
    let first =
        linear(b, "scorer.mlp.0", x, &format!("model.scorer.{module}.0"), widths[0], Some(activation));
    let second =
        linear(b, "scorer.mlp.2", first, &format!("model.scorer.{module}.2"), widths[1], Some(activation));
    linear(b, "logits", second, &format!("model.scorer.{module}.4"), 1, None)
}
