//! The products of a decoder layer, in the order of the data.

use dikast_core::models::clef::{LayerType, TextConfig};

/// Where the decoder's tensors live.
const TEXT: &str = "model.language_model.";

/// Matrices that read one input.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    /// Its name in reports: the layer and what it does.
    pub(super) name: String,
    /// The layer.
    pub(super) layer: usize,
    /// The modules.
    pub(super) modules: Vec<String>,
    /// The tensor of the graph that is their input while they are not codes.
    pub(super) input: String,
    /// What computes the input, and so can take the scales of its channels.
    pub(super) fold: Fold,
    /// The channel of each input.
    pub(super) channels: Vec<usize>,
}

/// What takes the scales of an input's channels.
#[derive(Debug, Clone)]
pub(super) enum Fold {
    /// A norm whose weights are stored around zero, and matrices besides that read the same rows.
    Norm {
        /// The norm's weight.
        weight: String,
        /// Tensors of the other matrices.
        readers: Vec<String>,
    },
    /// The weight of a gated norm of each head.
    GatedNorm(String),
    /// The rows of a module that was quantized before.
    Rows(String),
}

/// The stages of all layers.
pub(super) fn stages(c: &TextConfig) -> Vec<Stage> {
    c.layer_types.iter().enumerate().flat_map(|(i, kind)| layer(c, i, *kind)).collect()
}

fn layer(c: &TextConfig, i: usize, kind: LayerType) -> [Stage; 4] {
    let path = format!("{TEXT}layers.{i}");
    let module = |name: &str| format!("{path}.{name}");
    let tensor = |name: &str| format!("{path}.{name}.weight");
    let same = |n: usize| (0..n).collect::<Vec<usize>>();
    let stage = |what: &str, modules: &[&str], input: &str, fold, channels| Stage {
        name: format!("layer {i} {what}"),
        layer: i,
        modules: modules.iter().map(|m| module(m)).collect(),
        input: format!("layer.{i}.{input}"),
        fold,
        channels,
    };
    let norm = |name: &str, readers: Vec<String>| Fold::Norm { weight: tensor(name), readers };
    let d = c.hidden_size;
    let [first, second] = match kind {
        LayerType::Linear => {
            let readers = ["linear_attn.in_proj_a", "linear_attn.in_proj_b"].map(tensor).to_vec();
            let (heads, width) = (c.linear_value_dim(), c.linear_value_head_dim);
            [
                stage(
                    "input",
                    &["linear_attn.in_proj_qkv", "linear_attn.in_proj_z"],
                    "qkvz.in",
                    norm("input_layernorm", readers),
                    same(d),
                ),
                stage(
                    "output",
                    &["linear_attn.out_proj"],
                    "mixed.in",
                    Fold::GatedNorm(tensor("linear_attn.norm")),
                    (0..heads).map(|j| j % width).collect(),
                ),
            ]
        }
        LayerType::Full => {
            let (heads, shared, width) = (c.num_attention_heads, c.num_key_value_heads.max(1), c.head_dim);
            // Consecutive query heads read one head of values.
            let channel = |j: usize| j / width / (heads / shared).max(1) * width + j % width;
            [
                stage(
                    "input",
                    &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
                    "qkv.in",
                    norm("input_layernorm", Vec::new()),
                    same(d),
                ),
                stage(
                    "output",
                    &["self_attn.o_proj"],
                    "mixed.in",
                    Fold::Rows(module("self_attn.v_proj")),
                    (0..heads * width).map(channel).collect(),
                ),
            ]
        }
    };
    let third = stage(
        "gate and up",
        &["mlp.gate_proj", "mlp.up_proj"],
        "gated.in",
        norm("post_attention_layernorm", Vec::new()),
        same(d),
    );
    let fourth = stage(
        "down",
        &["mlp.down_proj"],
        "gated",
        Fold::Rows(module("mlp.up_proj")),
        same(c.intermediate_size),
    );
    [first, second, third, fourth]
}
