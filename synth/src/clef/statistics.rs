//! Numbers like a trained CLEF's. Matrices keep the size of what goes through them; those that write to the residual
//! stream are smaller, so that 64 layers add up to a few times the first; norms have a few loud channels; the decay
//! of the linear layers spans the range that training starts from and stays in.

use crate::statistics::{Kind, Source};

/// What is written to the residual stream, relative to what keeps its size.
const RESIDUAL: f64 = 0.3;

/// The generator of a tensor whose rows have `width` numbers.
pub(super) fn source(name: &str, shape: &[usize], width: usize, seed: u64) -> Source {
    Source::of(kind(name, shape, width), name, width, seed)
}

fn kind(name: &str, shape: &[usize], width: usize) -> Kind {
    let ends = |ending: &str| name.ends_with(ending);
    let keeps = (width.max(1) as f64).powf(-0.5);
    let text = name.starts_with("model.language_model.");
    if ends("prior_logit_scale") {
        return Kind::Constant(std::f32::consts::LN_10);
    } else if ends("joint_logit_scale") || ends("residual_gate") {
        return Kind::Constant(if ends("residual_gate") { -2.0 } else { 2.0 });
    } else if ends(".A_log") {
        return Kind::LogUniform { low: 0.5, high: 16.0 };
    } else if ends(".dt_bias") {
        return Kind::Softplus { low: 1e-3, high: 0.1 };
    } else if ends("conv1d.weight") {
        return Kind::Normal { mean: 0.0, deviation: 0.5 };
    } else if ends("embed_tokens.weight") || name == "lm_head.weight" {
        return Kind::Matrix(0.03);
    } else if ends("pos_embed.weight") || ends("type_embedding.weight") {
        return Kind::Matrix(0.3);
    }
    if shape.len() < 2 {
        return match name {
            _ if ends("bias") => Kind::Bias,
            // The norm behind the linear layers multiplies by its weight; the others add one to it.
            _ if ends("linear_attn.norm.weight") => Kind::Gain,
            _ if text => Kind::ZeroGain,
            _ => Kind::Gain,
        };
    }
    let writes = [
        "o_proj.weight",
        "out_proj.weight",
        "down_proj.weight",
        "attn.proj.weight",
        "linear_fc2.weight",
        "linear2.weight",
        "feedforward.3.weight",
    ];
    // The merger of the vision tower ends in what replaces token rows, not in a residual stream.
    let residual = writes.iter().any(|w| ends(w)) && !name.contains("merger");
    Kind::Matrix(if residual { RESIDUAL * keeps } else { keeps })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(name: &str, shape: &[usize]) -> Vec<f32> {
        let width = if shape.len() < 2 { shape.iter().product() } else { shape[1..].iter().product() };
        let source = source(name, shape, width, 1);
        let rows = if shape.len() < 2 { 1 } else { shape[0] };
        let mut all = vec![0.0; rows * width];
        all.chunks_mut(width).enumerate().for_each(|(i, row)| source.row(i, row));
        all
    }

    #[test]
    fn decays_and_time_steps_are_in_the_range_of_trained_ones() {
        let layer = "model.language_model.layers.0.linear_attn";
        let decay = numbers(&format!("{layer}.A_log"), &[4096]);
        assert!(decay.iter().all(|v| (0.5f32.ln()..=16f32.ln()).contains(v)));
        assert!(decay.iter().any(|v| *v < 0.5) && decay.iter().any(|v| *v > 2.5));
        let steps = numbers(&format!("{layer}.dt_bias"), &[4096]);
        assert!(steps.iter().all(|v| (0.000_99..0.1001).contains(&v.exp().ln_1p())), "{steps:?}");
        assert!(steps.iter().any(|v| *v < -6.0) && steps.iter().any(|v| *v > -3.0));
    }

    #[test]
    fn norms_have_few_loud_channels_and_matrices_keep_sizes() {
        let gain = numbers("model.language_model.layers.3.input_layernorm.weight", &[5120]);
        let loud = gain.iter().filter(|v| **v > 5.0).count();
        assert!((3..40).contains(&loud), "{loud}");
        let deviation = |v: &[f32]| (v.iter().map(|v| v * v).sum::<f32>() / v.len() as f32).sqrt();
        for (name, scale) in [("mlp.gate_proj", 1.0), ("mlp.down_proj", 0.3)] {
            let w = numbers(&format!("model.language_model.layers.0.{name}.weight"), &[256, 1024]);
            let relative = deviation(&w) * 32.0 / scale;
            assert!((0.7..1.8).contains(&relative), "{name}: {relative}");
        }
        // Rows of a picture's patches are as long as all their dimensions.
        let patches = numbers("model.visual.patch_embed.proj.weight", &[64, 3, 2, 16, 16]);
        assert!((0.7..1.8).contains(&(deviation(&patches) * 1536f32.sqrt())));
    }
}
