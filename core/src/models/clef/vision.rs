//! The vision tower: patches → token rows.
//!
//! ```text
//! x = patch_embed(pixels) + positions
//! block: x += proj(attention(rotary(q), rotary(k), v))        within one frame
//!        x += fc2(gelu_tanh(fc1(norm(x))))
//! rows = fc2(gelu(fc1(four patches of norm(x), side by side)))
//! ```

use super::VisionConfig;
use super::tensors::VISION;
use crate::graph::{
    Activation, Columns, Elements, Frequency, GraphBuilder, InputKind, Residency, RotaryHeads, Symbol,
    TensorId, Weight,
};

/// Epsilon of the tower's norms.
const EPS: f32 = 1e-6;

/// Adds the tower to a graph: rows for the media tokens, `[media_tokens, out]`.
pub(super) fn tower(b: &mut GraphBuilder, c: &VisionConfig, out: usize) -> TensorId {
    let d = c.hidden_size;
    let pixels = b.patches(c.patch_values());
    let embed = b.add_weight(Weight {
        name: "vision.patch_embed.weight".to_owned(),
        parts: vec![format!("{VISION}patch_embed.proj.weight")],
        shape: vec![d, c.patch_values()],
        elements: Elements::Real,
        residency: Residency::Device,
    });
    let bias = b.weight(format!("{VISION}patch_embed.proj.bias"), &[d]);
    let x = b.linear("vision.patches", pixels, embed, Some(bias), None, None);
    let table = b.weight(format!("{VISION}pos_embed.weight"), &[c.position_side * c.position_side, d]);
    let taps = (b.input(InputKind::PositionTaps), b.input(InputKind::PositionWeights));
    let mut x = b.add_positions("vision.embed", x, table, taps);
    for i in 0..c.depth {
        x = block(b, c, i, x);
    }
    let x = norm(b, "vision.merger.norm", x, &format!("{VISION}merger.norm"));
    let merged = b.merge_rows("vision.merged", x, c.merge(), Symbol::MediaTokens.into());
    let fc1 = format!("{VISION}merger.linear_fc1");
    let width = c.merge() * d;
    let hidden = linear(b, "vision.merger.1", merged, &fc1, width, Some(Activation::GeluErf), None);
    linear(b, "vision.out", hidden, &format!("{VISION}merger.linear_fc2"), out, None, None)
}

fn block(b: &mut GraphBuilder, c: &VisionConfig, i: usize, x: TensorId) -> TensorId {
    let (d, width) = (c.hidden_size, c.hidden_size / c.num_heads);
    let (path, name) = (format!("{VISION}blocks.{i}"), format!("vision.block.{i}"));
    let normed = norm(b, &format!("{name}.norm1"), x, &format!("{path}.norm1"));
    let qkv = linear(b, &format!("{name}.qkv"), normed, &format!("{path}.attn.qkv"), 3 * d, None, None);
    let parts =
        [0, d].map(|start| RotaryHeads { heads: b.heads(qkv, start, width, c.num_heads), norm: None });
    let positions = b.input(InputKind::PatchPositions);
    let qk = b.head_rotary(&format!("{name}.qk"), parts.to_vec(), EPS, frequencies(c), positions);
    let operands = (
        Columns { tensor: qk, start: 0, width: d },
        Columns { tensor: qk, start: d, width: d },
        Columns { tensor: qkv, start: 2 * d, width: d },
    );
    let frames = b.input(InputKind::FrameOffsets);
    let scale = 1.0 / (width as f32).sqrt();
    let context = b.attention(
        &format!("{name}.context"),
        operands,
        (frames, frames),
        None,
        (c.num_heads, width),
        scale,
        None,
    );
    let x = linear(b, &format!("{name}.attended"), context, &format!("{path}.attn.proj"), d, None, Some(x));
    let normed = norm(b, &format!("{name}.norm2"), x, &format!("{path}.norm2"));
    let (fc1, fc2) = (format!("{path}.mlp.linear_fc1"), format!("{path}.mlp.linear_fc2"));
    let gelu = Some(Activation::GeluTanh);
    let hidden = linear(b, &format!("{name}.hidden"), normed, &fc1, c.intermediate_size, gelu, None);
    linear(b, &format!("{name}.out"), hidden, &fc2, d, None, Some(x))
}

fn norm(b: &mut GraphBuilder, name: &str, x: TensorId, module: &str) -> TensorId {
    let d = b.width(x);
    let (weight, bias) =
        (b.weight(format!("{module}.weight"), &[d]), b.weight(format!("{module}.bias"), &[d]));
    b.layer_norm(name, x, weight, bias, EPS)
}

fn linear(
    b: &mut GraphBuilder,
    name: &str,
    x: TensorId,
    module: &str,
    out: usize,
    activation: Option<Activation>,
    residual: Option<TensorId>,
) -> TensorId {
    let k = b.width(x);
    let weight = b.weight(format!("{module}.weight"), &[out, k]);
    let bias = b.weight(format!("{module}.bias"), &[out]);
    b.linear(name, x, weight, Some(bias), activation, residual)
}

/// A quarter of a head's columns turns by the row, another by the column: `theta^(−2j/(width/2))` each.
fn frequencies(c: &VisionConfig) -> Vec<Frequency> {
    let quarter = c.hidden_size / c.num_heads / 4;
    let inverse = |j: usize| c.rope_theta.powf(-(j as f64) / quarter as f64) as f32;
    [0, 1]
        .into_iter()
        .flat_map(|axis| (0..quarter).map(move |j| Frequency { axis, inverse: inverse(j) }))
        .collect()
}
