//! The parts of a CLEF model, as people ask about them.

use super::tensors::{HEAD, VISION, is_projection};
use crate::checkpoint::Weights;

/// A part of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Token table.
    Embedding,
    /// LM head, of which only rows are read.
    LmHead,
    /// The decoder's large projections.
    Projections,
    /// Scales and biases of quantized projections.
    Scales,
    /// Everything else of the decoder: small projections, convolutions, decays, norms.
    Small,
    /// The vision tower.
    Vision,
    /// The joint schema head.
    Head,
}

impl Part {
    /// All parts in the order in which a table shows them.
    pub const ALL: [Self; 7] = [
        Self::Embedding,
        Self::LmHead,
        Self::Projections,
        Self::Scales,
        Self::Small,
        Self::Vision,
        Self::Head,
    ];

    /// Name for a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::LmHead => "LM head",
            Self::Projections => "large projections",
            Self::Scales => "scales and biases",
            Self::Small => "rest of the decoder",
            Self::Vision => "vision tower",
            Self::Head => "decision head",
        }
    }
}

/// Number and size of the tensors of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartBytes {
    /// The part.
    pub part: Part,
    /// Tensors.
    pub tensors: usize,
    /// Their bytes as stored.
    pub bytes: u64,
}

/// The part that a tensor of [`expected_tensors`](super::expected_tensors), or a companion of one, belongs to.
pub fn part_of(name: &str) -> Part {
    if name.starts_with(HEAD) {
        Part::Head
    } else if name.starts_with(VISION) {
        Part::Vision
    } else if name == "lm_head.weight" {
        Part::LmHead
    } else if name.ends_with("embed_tokens.weight") {
        Part::Embedding
    } else if is_projection(name) {
        Part::Projections
    } else if name.ends_with(".weight_scale") || name.ends_with(".bias") {
        // The decoder has no biases but the corrections of quantized projections.
        Part::Scales
    } else {
        Part::Small
    }
}

/// Sizes of all parts, in the order of [`Part::ALL`].
pub fn part_sizes(weights: &Weights) -> [PartBytes; 7] {
    let mut parts = Part::ALL.map(|part| PartBytes { part, tensors: 0, bytes: 0 });
    for (name, view) in weights.iter() {
        let part = &mut parts[part_of(name) as usize];
        part.tensors += 1;
        part.bytes += view.bytes.len() as u64;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{Part, part_of};

    #[test]
    fn names_and_their_parts() {
        let layer = "model.language_model.layers.3";
        for (name, part) in [
            ("model.language_model.embed_tokens.weight".to_owned(), Part::Embedding),
            ("lm_head.weight".to_owned(), Part::LmHead),
            (format!("{layer}.self_attn.q_proj.weight"), Part::Projections),
            (format!("{layer}.self_attn.q_proj.weight_scale"), Part::Scales),
            (format!("{layer}.linear_attn.in_proj_qkv.weight"), Part::Projections),
            (format!("{layer}.linear_attn.in_proj_qkv.bias"), Part::Scales),
            (format!("{layer}.linear_attn.in_proj_z.bias"), Part::Scales),
            (format!("{layer}.linear_attn.in_proj_a.weight"), Part::Small),
            (format!("{layer}.linear_attn.dt_bias"), Part::Small),
            (format!("{layer}.input_layernorm.weight"), Part::Small),
            ("model.visual.blocks.0.attn.qkv.bias".to_owned(), Part::Vision),
            ("joint_head.layers.0.linear1.bias".to_owned(), Part::Head),
        ] {
            assert_eq!(part_of(&name), part, "{name}");
        }
        assert!(Part::ALL.iter().enumerate().all(|(i, p)| *p as usize == i));
    }
}
