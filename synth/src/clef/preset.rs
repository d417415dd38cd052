//! The published configurations.

use serde_json::{Value, json};

/// `config.json` of a published model, as far as its tensors and inference need it.
pub(crate) fn preset(name: &str) -> Option<Value> {
    // Hidden, feed-forward, layers, query heads, value heads of the linear layers.
    let (hidden, intermediate, layers, heads, value_heads) = match name {
        "clef-27b" => (5120, 17408, 64, 24, 48),
        "clef-9b" => (4096, 12288, 32, 16, 32),
        _ => return None,
    };
    let kind = |i: usize| if (i + 1).is_multiple_of(4) { "full_attention" } else { "linear_attention" };
    let layer_types: Vec<&str> = (0..layers).map(kind).collect();
    Some(json!({
        "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "dtype": "bfloat16",
        "image_token_id": 248_056, "video_token_id": 248_057,
        "vision_start_token_id": 248_053, "vision_end_token_id": 248_054,
        "tie_word_embeddings": false,
        "text_config": {
            "model_type": "qwen3_5_text", "hidden_act": "silu", "attention_bias": false, "dtype": "bfloat16",
            "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": 4, "head_dim": 256,
            "linear_num_key_heads": 16, "linear_num_value_heads": value_heads,
            "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
            "layer_types": layer_types, "rms_norm_eps": 1e-6, "vocab_size": 248_320,
            "max_position_embeddings": 262_144, "tie_word_embeddings": false,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10_000_000, "partial_rotary_factor": 0.25,
                "mrope_section": [11, 11, 10], "mrope_interleaved": true
            }
        },
        "vision_config": {
            "model_type": "qwen3_5_vision", "hidden_act": "gelu_pytorch_tanh", "depth": 27, "hidden_size": 1152,
            "intermediate_size": 4304, "num_heads": 16, "in_channels": 3, "num_position_embeddings": 2304,
            "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": hidden,
            "rope_parameters": {"rope_type": "axial", "rope_theta": 10_000.0}
        }
    }))
}

/// `joint_head_config.json` over a backbone of some width.
pub(super) fn head(hidden: &Value) -> Value {
    json!({"hidden_size": hidden, "width": 1024, "routing_layers": 2, "layers": 4, "heads": 16, "feedforward": 4096})
}

/// `processor_config.json` with the released limits.
pub(super) fn processor() -> Value {
    let common = json!({
        "do_convert_rgb": true, "do_normalize": true, "do_rescale": true, "do_resize": true,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "rescale_factor": 1.0 / 255.0,
        "merge_size": 2, "patch_size": 16, "temporal_patch_size": 2
    });
    let with = |more: Value| {
        let mut all = common.clone();
        if let (Some(all), Some(more)) = (all.as_object_mut(), more.as_object()) {
            all.extend(more.clone());
        }
        all
    };
    json!({
        "processor_class": "Qwen3VLProcessor",
        "image_processor": with(json!({
            "image_processor_type": "Qwen2VLImageProcessor", "resample": 3,
            "size": {"shortest_edge": 65_536, "longest_edge": 16_777_216}
        })),
        "video_processor": with(json!({
            "video_processor_type": "Qwen3VLVideoProcessor", "resample": 3, "do_sample_frames": true,
            "fps": 2, "min_frames": 4, "max_frames": 768, "return_metadata": false,
            "size": {"shortest_edge": 4096, "longest_edge": 25_165_824}
        }))
    })
}
