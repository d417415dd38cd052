//! The exact tensors of a CLEF checkpoint.

use super::{ClefConfig, HeadConfig, LayerType, TextConfig, VisionConfig};
use crate::checkpoint::{Expected, Fused, SideFile, Slice, TensorSpec};

/// Where the decoder's tensors live.
pub(super) const TEXT: &str = "model.language_model.";
/// Where the vision tower's tensors live.
pub(super) const VISION: &str = "model.visual.";
/// Where the head's tensors live; its own file leaves this out.
pub const HEAD: &str = "joint_head.";
/// Number of question types: `noul`, `choice`, `score`.
pub const QUESTION_TYPES: usize = 3;

/// Every tensor that a checkpoint of this configuration must hold: backbone, LM head, vision tower and joint head.
///
/// Floating-point tensors may be F32, F16 or BF16; the large projections of the decoder may be INT8.
pub fn expected_tensors(config: &ClefConfig) -> Expected {
    let mut tensors = Vec::new();
    text(&config.text, &mut tensors);
    vision(&config.vision, config.text.hidden_size, &mut tensors);
    let mut head = Vec::new();
    self::head(&config.head, config.text.hidden_size, &mut head);
    tensors.extend(head.into_iter().map(|t| TensorSpec { name: format!("{HEAD}{}", t.name), ..t }));
    let slices = slices(&config.head);
    let gate_up = |i| Fused {
        name: format!("{TEXT}layers.{i}.mlp.gate_up_proj"),
        parts: ["gate_proj", "up_proj"]
            .map(|m| (format!("{TEXT}layers.{i}.mlp.{m}"), config.text.intermediate_size))
            .to_vec(),
    };
    Expected {
        tensors,
        slices,
        // The layer of the base models that predicts one more token.
        ignored_prefixes: vec!["mtp.".to_owned()],
        fused: (0..config.text.layer_types.len()).map(gate_up).collect(),
        side_files: vec![SideFile { file: "joint_head.safetensors".to_owned(), prefix: HEAD.to_owned() }],
        ..Expected::default()
    }
}

/// The packed input projections of cross-attention: queries come from other rows than keys and values.
fn slices(c: &HeadConfig) -> Vec<Slice> {
    let routing = (0..c.routing_layers).map(|i| format!("{HEAD}evidence_layers.{i}.attention"));
    let decoder = (0..c.layers).map(|i| format!("{HEAD}layers.{i}.multihead_attn"));
    let slice = |module: &str, tensor: &str, part: &str, rows: std::ops::Range<usize>| Slice {
        name: format!("{module}.in_proj_{tensor}.{part}"),
        of: format!("{module}.in_proj_{tensor}"),
        rows,
    };
    routing
        .chain(decoder)
        .flat_map(|module| {
            ["weight", "bias"].into_iter().flat_map(move |tensor| {
                [slice(&module, tensor, "q", 0..c.width), slice(&module, tensor, "kv", c.width..3 * c.width)]
            })
        })
        .collect()
}

fn text(c: &TextConfig, tensors: &mut Vec<TensorSpec>) {
    let (d, ff) = (c.hidden_size, c.intermediate_size);
    tensors.push(TensorSpec::float(format!("{TEXT}embed_tokens.weight"), [c.vocab_size, d]));
    for (i, kind) in c.layer_types.iter().enumerate() {
        let layer = format!("{TEXT}layers.{i}");
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            tensors.push(TensorSpec::float(format!("{layer}.{norm}.weight"), [d]));
        }
        match kind {
            LayerType::Linear => {
                let (mixer, heads) = (format!("{layer}.linear_attn"), c.linear_num_value_heads);
                tensors.push(projection(&format!("{mixer}.in_proj_qkv"), c.linear_conv_dim(), d));
                tensors.push(projection(&format!("{mixer}.in_proj_z"), c.linear_value_dim(), d));
                for gate in ["in_proj_a", "in_proj_b"] {
                    tensors.push(TensorSpec::float(format!("{mixer}.{gate}.weight"), [heads, d]));
                }
                let conv = [c.linear_conv_dim(), 1, c.linear_conv_kernel_dim];
                tensors.push(TensorSpec::float(format!("{mixer}.conv1d.weight"), conv));
                for vector in ["A_log", "dt_bias"] {
                    tensors.push(TensorSpec::float(format!("{mixer}.{vector}"), [heads]));
                }
                tensors.push(TensorSpec::float(format!("{mixer}.norm.weight"), [c.linear_value_head_dim]));
                tensors.push(projection(&format!("{mixer}.out_proj"), d, c.linear_value_dim()));
            }
            LayerType::Full => {
                let mixer = format!("{layer}.self_attn");
                tensors.push(projection(&format!("{mixer}.q_proj"), 2 * c.query_dim(), d));
                tensors.push(projection(&format!("{mixer}.k_proj"), c.key_value_dim(), d));
                tensors.push(projection(&format!("{mixer}.v_proj"), c.key_value_dim(), d));
                tensors.push(projection(&format!("{mixer}.o_proj"), d, c.query_dim()));
                for norm in ["q_norm", "k_norm"] {
                    tensors.push(TensorSpec::float(format!("{mixer}.{norm}.weight"), [c.head_dim]));
                }
            }
        }
        tensors.push(projection(&format!("{layer}.mlp.gate_proj"), ff, d));
        tensors.push(projection(&format!("{layer}.mlp.up_proj"), ff, d));
        tensors.push(projection(&format!("{layer}.mlp.down_proj"), d, ff));
    }
    tensors.push(TensorSpec::float(format!("{TEXT}norm.weight"), [d]));
    tensors.push(TensorSpec::float("lm_head.weight", [c.vocab_size, d]));
}

/// Whether a tensor is the weight of a large projection of the decoder.
pub(super) fn is_projection(name: &str) -> bool {
    const MODULES: [&str; 10] = [
        "linear_attn.in_proj_qkv",
        "linear_attn.in_proj_z",
        "linear_attn.out_proj",
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
        "mlp.gate_proj",
        "mlp.up_proj",
        "mlp.down_proj",
    ];
    let module = name.strip_prefix(TEXT).and_then(|n| n.strip_suffix(".weight"));
    module.is_some_and(|module| MODULES.iter().any(|m| module.ends_with(m)))
}

/// A large projection of the decoder, `MODULE.weight` `[rows, columns]`.
fn projection(module: &str, rows: usize, columns: usize) -> TensorSpec {
    TensorSpec::int8_projection(module, rows, columns)
}

fn vision(c: &VisionConfig, out: usize, tensors: &mut Vec<TensorSpec>) {
    let (d, ff, merged) = (c.hidden_size, c.intermediate_size, c.merge() * c.hidden_size);
    let patch = [d, c.in_channels, c.temporal_patch_size, c.patch_size, c.patch_size];
    tensors.push(TensorSpec::float(format!("{VISION}patch_embed.proj.weight"), patch));
    tensors.push(TensorSpec::float(format!("{VISION}patch_embed.proj.bias"), [d]));
    let positions = [c.position_side * c.position_side, d];
    tensors.push(TensorSpec::float(format!("{VISION}pos_embed.weight"), positions));
    for i in 0..c.depth {
        let block = format!("{VISION}blocks.{i}");
        for norm in ["norm1", "norm2"] {
            layer_norm(&format!("{block}.{norm}"), d, tensors);
        }
        for (name, rows, columns) in [
            ("attn.qkv", 3 * d, d),
            ("attn.proj", d, d),
            ("mlp.linear_fc1", ff, d),
            ("mlp.linear_fc2", d, ff),
        ] {
            tensors.extend(TensorSpec::linear(&format!("{block}.{name}"), rows, columns));
        }
    }
    layer_norm(&format!("{VISION}merger.norm"), d, tensors);
    tensors.extend(TensorSpec::linear(&format!("{VISION}merger.linear_fc1"), merged, merged));
    tensors.extend(TensorSpec::linear(&format!("{VISION}merger.linear_fc2"), out, merged));
}

fn layer_norm(module: &str, d: usize, tensors: &mut Vec<TensorSpec>) {
    for part in ["weight", "bias"] {
        tensors.push(TensorSpec::float(format!("{module}.{part}"), [d]));
    }
}

fn head(c: &HeadConfig, hidden: usize, tensors: &mut Vec<TensorSpec>) {
    let (w, ff) = (c.width, c.feedforward);
    layer_norm("hidden_norm", hidden, tensors);
    for name in ["memory", "question", "option_question", "global", "option_context", "option_lexical"] {
        tensors.push(TensorSpec::float(format!("{name}_projection.weight"), [w, hidden]));
    }
    tensors.push(TensorSpec::float("type_embedding.weight", [QUESTION_TYPES, w]));
    for i in 0..c.routing_layers {
        let layer = format!("evidence_layers.{i}");
        for norm in ["query_norm", "memory_norm", "feedforward_norm"] {
            layer_norm(&format!("{layer}.{norm}"), w, tensors);
        }
        attention(&format!("{layer}.attention"), w, tensors);
        tensors.extend(TensorSpec::linear(&format!("{layer}.feedforward.0"), ff, w));
        tensors.extend(TensorSpec::linear(&format!("{layer}.feedforward.3"), w, ff));
    }
    layer_norm("option_summary_norm", w, tensors);
    for i in 0..c.layers {
        let layer = format!("layers.{i}");
        for name in ["self_attn", "multihead_attn"] {
            attention(&format!("{layer}.{name}"), w, tensors);
        }
        tensors.extend(TensorSpec::linear(&format!("{layer}.linear1"), ff, w));
        tensors.extend(TensorSpec::linear(&format!("{layer}.linear2"), w, ff));
        for norm in ["norm1", "norm2", "norm3"] {
            layer_norm(&format!("{layer}.{norm}"), w, tensors);
        }
    }
    layer_norm("field_norm", w, tensors);
    layer_norm("option_norm", w, tensors);
    tensors.extend(TensorSpec::linear("residual_scorer.0", w, 4 * w));
    tensors.extend(TensorSpec::linear("residual_scorer.3", 1, w));
    for scalar in ["prior_logit_scale", "joint_logit_scale", "residual_gate"] {
        tensors.push(TensorSpec::float(scalar, []));
    }
}

fn attention(module: &str, w: usize, tensors: &mut Vec<TensorSpec>) {
    tensors.push(TensorSpec::float(format!("{module}.in_proj_weight"), [3 * w, w]));
    tensors.push(TensorSpec::float(format!("{module}.in_proj_bias"), [3 * w]));
    tensors.extend(TensorSpec::linear(&format!("{module}.out_proj"), w, w));
}
