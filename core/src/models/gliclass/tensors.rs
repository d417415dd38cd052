//! The exact tensors of a GLiClass uni-encoder checkpoint with an mT5 backbone.

use super::{GliClassConfig, Mt5Config, Scorer};
use crate::checkpoint::{Alias, Expected, TensorSpec, Weights};

const ENCODER: &str = "model.encoder_model.";
const TABLE: &str = "model.encoder_model.shared.weight";
const TABLE_ALIAS: &str = "model.encoder_model.encoder.embed_tokens.weight";
/// Widths of the MLP of the mlp and hopfield scorers; `scorer_mlp_hidden_size` is not used there.
const MLP: [usize; 2] = [256, 128];
/// Segment ids: before the first separator, from it on, with examples.
const SEGMENTS: usize = 3;

/// Every tensor that a checkpoint of this configuration must hold.
///
/// Floating-point tensors may be F32, F16 or BF16. Only the encoder's projections (q, k, v, o, wi_0, wi_1, wo of each
/// block) may be FP8, each on its own, and then each has a `weight_scale` `[out, 1]`. The shared embedding table may
/// stand under either of its two names. `position_embeddings` is a leftover of some files and ignored.
pub fn expected_tensors(config: &GliClassConfig) -> Expected {
    let d = config.hidden_size;
    let mut tensors = vec![TensorSpec::float(TABLE, [config.encoder.vocab_size, d])];
    encoder(&config.encoder, &mut tensors);
    if config.use_segment_embeddings {
        tensors.push(TensorSpec::float("model.segment_embeddings.weight", [SEGMENTS, d]));
    }
    if config.use_lstm {
        lstm(d, &mut tensors);
    }
    for projector in ["model.text_projector", "model.classes_projector"] {
        for layer in ["linear_1", "linear_2"] {
            tensors.extend(TensorSpec::linear(&format!("{projector}.{layer}"), d, d));
        }
    }
    tensors.push(TensorSpec::float("model.logit_scale", []));
    scorer(config, &mut tensors);
    Expected {
        tensors,
        aliases: vec![Alias { name: TABLE.to_owned(), other: TABLE_ALIAS.to_owned() }],
        ignored: ["", "model.", ENCODER].map(|prefix| format!("{prefix}position_embeddings")).to_vec(),
        ..Expected::default()
    }
}

fn encoder(config: &Mt5Config, tensors: &mut Vec<TensorSpec>) {
    let (d, inner, ff) = (config.d_model, config.num_heads * config.d_kv, config.d_ff);
    let (buckets, heads) = (config.relative_attention_num_buckets, config.num_heads);
    for block in 0..config.num_layers {
        let attention = format!("{ENCODER}encoder.block.{block}.layer.0");
        for name in ["q", "k", "v"] {
            tensors.push(TensorSpec::projection(&format!("{attention}.SelfAttention.{name}"), inner, d));
        }
        tensors.push(TensorSpec::projection(&format!("{attention}.SelfAttention.o"), d, inner));
        if block == 0 {
            let name = format!("{attention}.SelfAttention.relative_attention_bias.weight");
            tensors.push(TensorSpec::float(name, [buckets, heads]));
        }
        tensors.push(TensorSpec::float(format!("{attention}.layer_norm.weight"), [d]));
        let feed_forward = format!("{ENCODER}encoder.block.{block}.layer.1");
        for name in ["wi_0", "wi_1"] {
            tensors.push(TensorSpec::projection(&format!("{feed_forward}.DenseReluDense.{name}"), ff, d));
        }
        tensors.push(TensorSpec::projection(&format!("{feed_forward}.DenseReluDense.wo"), d, ff));
        tensors.push(TensorSpec::float(format!("{feed_forward}.layer_norm.weight"), [d]));
    }
    tensors.push(TensorSpec::float(format!("{ENCODER}encoder.final_layer_norm.weight"), [d]));
}

/// One bidirectional layer of half the width in each direction; four gates stacked.
fn lstm(d: usize, tensors: &mut Vec<TensorSpec>) {
    let half = d / 2;
    for direction in ["", "_reverse"] {
        let name = |part: &str| format!("model.lstm.lstm.{part}_l0{direction}");
        tensors.push(TensorSpec::float(name("weight_ih"), [4 * half, d]));
        tensors.push(TensorSpec::float(name("weight_hh"), [4 * half, half]));
        tensors.push(TensorSpec::float(name("bias_ih"), [4 * half]));
        tensors.push(TensorSpec::float(name("bias_hh"), [4 * half]));
    }
}

fn scorer(config: &GliClassConfig, tensors: &mut Vec<TensorSpec>) {
    let d = config.hidden_size;
    let mut linear = |name: &str, rows, columns| {
        tensors.extend(TensorSpec::linear(&format!("model.scorer.{name}"), rows, columns));
    };
    match config.scorer {
        Scorer::Simple => {}
        Scorer::WeightedDot => {
            linear("proj_text", 2 * d, d);
            linear("proj_label", 2 * d, d);
            linear("out_mlp.0", 4 * d, 3 * d);
            linear("out_mlp.3", 1, 4 * d);
        }
        Scorer::Mlp | Scorer::Hopfield => {
            let input = if config.scorer == Scorer::Mlp { 2 * d } else { d };
            linear("mlp.0", MLP[0], input);
            linear("mlp.2", MLP[1], MLP[0]);
            linear("mlp.4", 1, MLP[1]);
            if config.scorer == Scorer::Hopfield {
                for name in ["q_proj", "k_proj", "v_proj"] {
                    tensors.push(TensorSpec::float(format!("model.scorer.{name}.weight"), [d, d]));
                }
            }
        }
        Scorer::CrossAttn => {
            let s = config.scorer_mlp_hidden_size;
            for name in ["q", "k", "v", "out"] {
                linear(name, d, d);
            }
            linear("score_mlp.0", s, 2 * d);
            linear("score_mlp.2", s / 2, s);
            linear("score_mlp.4", 1, s / 2);
            for norm in ["q_norm", "kv_norm", "norm"] {
                for part in ["weight", "bias"] {
                    tensors.push(TensorSpec::float(format!("model.scorer.{norm}.{part}"), [d]));
                }
            }
        }
    }
}

/// A part of the model, as people ask about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Token and segment embeddings.
    Embedding,
    /// The encoder's projections.
    Projections,
    /// Scales of quantized projections.
    Scales,
    /// The encoder's norms and its relative position bias.
    Norms,
    /// LSTM, projectors, scorer and logit scale.
    Heads,
}

impl Part {
    /// All parts in the order in which a table shows them.
    pub const ALL: [Self; 5] = [Self::Embedding, Self::Projections, Self::Scales, Self::Norms, Self::Heads];

    /// Name for a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Projections => "encoder projections",
            Self::Scales => "scales",
            Self::Norms => "encoder norms and bias",
            Self::Heads => "heads",
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

/// The part that a tensor of [`expected_tensors`] belongs to, by its name.
pub fn part_of(name: &str) -> Part {
    if name == TABLE || name.starts_with("model.segment_embeddings.") {
        Part::Embedding
    } else if name.ends_with(".weight_scale") {
        Part::Scales
    } else if !name.starts_with(ENCODER) {
        Part::Heads
    } else if name.ends_with("norm.weight") || name.ends_with(".relative_attention_bias.weight") {
        Part::Norms
    } else {
        Part::Projections
    }
}

/// Sizes of all parts, in the order of [`Part::ALL`].
pub fn part_sizes(weights: &Weights) -> [PartBytes; 5] {
    sizes(weights.iter().map(|(name, view)| (name, view.bytes.len() as u64)))
}

fn sizes<'a>(tensors: impl Iterator<Item = (&'a str, u64)>) -> [PartBytes; 5] {
    let mut parts = Part::ALL.map(|part| PartBytes { part, tensors: 0, bytes: 0 });
    for (name, bytes) in tensors {
        let part = &mut parts[part_of(name) as usize];
        part.tensors += 1;
        part.bytes += bytes;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{FileLayout, StoredTensor, StoredType};

    /// The sizes of GLiClass Multilang Ultra.
    const ULTRA: &str = r#"{
        "class_token_index": 250100, "text_token_index": 250101, "example_token_index": 250102,
        "hidden_size": 2048, "prompt_first": true, "extract_text_features": true, "class_token_pooling": "average",
        "pooling_strategy": "pass", "scorer_type": "cross-attn",
        "encoder_config": {"model_type": "mt5", "vocab_size": 250103, "d_model": 2048, "d_ff": 5120, "d_kv": 64,
            "num_heads": 32, "num_layers": 24}
    }"#;

    /// The length of the file that holds some tensors.
    fn file_length(list: Vec<StoredTensor>) -> u64 {
        FileLayout::new(list).expect("a layout").file_bytes()
    }

    #[test]
    fn multilang_ultra_has_the_published_sizes() {
        let config = GliClassConfig::from_json(ULTRA.as_bytes()).expect("valid");
        let expected = expected_tensors(&config);

        let plain = expected.stored(|_| StoredType::BF16);
        assert_eq!(plain.len(), 248);
        assert_eq!(plain.iter().map(|t| t.bytes()).sum::<u64>() / 2, 1_708_243_970);
        assert_eq!(file_length(plain), 3_416_522_340);

        let quantized = expected
            .stored(|spec| if spec.companions.is_empty() { StoredType::BF16 } else { StoredType::F8E4M3 });
        assert_eq!(quantized.len(), 416);
        let parts = sizes(quantized.iter().map(|t| (t.name.as_str(), t.bytes())));
        assert_eq!(parts.map(|p| p.tensors), [1, 168, 168, 50, 29]);
        assert_eq!(parts.map(|p| p.bytes)[..3], [1_024_421_888, 1_157_627_904, 983_040]);
        assert_eq!(file_length(quantized), 2_259_902_516);
    }
}
