//! Configurations of published models, by name.

use serde_json::{Value, json};

/// Names that [`preset`] knows.
pub const PRESETS: [&str; 4] = ["gliclass-multilang-ultra", "gliclass-multilang-mini", "clef-27b", "clef-9b"];

/// The `config.json` of a published model, as far as its tensors and inference need it.
pub fn preset(name: &str) -> Option<Value> {
    if name.starts_with("clef-") {
        return crate::clef::preset(name);
    }
    // Sizes of mT5-XL and mT5-base; the vocabulary is that of the published files.
    let (d_model, d_ff, heads, layers) = match name {
        "gliclass-multilang-ultra" => (2048, 5120, 32, 24),
        "gliclass-multilang-mini" => (768, 2048, 12, 12),
        _ => return None,
    };
    Some(json!({
        "model_type": "GLiClass",
        "architectures": ["GLiClassModel"],
        "architecture_type": "uni-encoder",
        "encoder_config": {
            "model_type": "mt5", "vocab_size": 250_103, "d_model": d_model, "d_ff": d_ff, "d_kv": 64,
            "num_heads": heads, "num_layers": layers, "relative_attention_num_buckets": 32,
            "relative_attention_max_distance": 128, "layer_norm_epsilon": 1e-6,
            "feed_forward_proj": "gated-gelu", "is_gated_act": true, "pad_token_id": 0, "eos_token_id": 1
        },
        "vocab_size": 250_103,
        "class_token_index": 250_100, "text_token_index": 250_101, "example_token_index": 250_102,
        "hidden_size": d_model,
        "scorer_type": "cross-attn", "scorer_num_heads": 16, "scorer_mlp_hidden_size": 1024,
        "pooling_strategy": "pass", "class_token_pooling": "average",
        "extract_text_features": true, "prompt_first": true, "embed_class_token": true,
        "normalize_features": false, "use_lstm": false, "use_segment_embeddings": false,
        "projector_hidden_act": "gelu", "logit_scale_init_value": 2.6592,
        "max_num_classes": 25, "max_labels_alloc": "dynamic", "pad_token_id": 0, "dtype": "bfloat16"
    }))
}
