//! Reads `config.json` and `joint_head_config.json`.

use super::config::{ClefConfig, HeadConfig, LayerType, MediaTokens, TextConfig, VisionConfig};
use crate::checkpoint::json::{self, Fields};
use crate::checkpoint::shown;
use crate::{Error, Result};

const FILE: &str = "config.json";
const HEAD_FILE: &str = "joint_head_config.json";

// Bounds that no published model comes near, and within which no product of sizes below can overflow 64 bits.
const MAX_WIDTH: u64 = 1 << 16;
const MAX_FEED_FORWARD: u64 = 1 << 20;
const MAX_VOCABULARY: u64 = 1 << 24;
const MAX_LAYERS: u64 = 1 << 10;
const MAX_HEADS: u64 = 1 << 10;
const MAX_POSITIONS: u64 = 1 << 24;
const MAX_EPSILON: f32 = 1e-2;
const MAX_THETA: f32 = 1e12;

impl ClefConfig {
    /// Reads and checks `config.json` and `joint_head_config.json`. Sizes must be there; fields that do not matter to
    /// inference are not looked at.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] naming the key, the value found and what is allowed, also where the head does not fit
    /// the backbone; [`Error::Unsupported`] for a model of a kind that this engine does not run.
    pub fn from_json(config: &[u8], head: &[u8]) -> Result<Self> {
        let root = json::object(FILE, config)?;
        let top = Fields::new(FILE, "", &root);
        only(top, "model_type", &["qwen3_5"])?;
        let text = nested(top, "text_config")?;
        let text = text_config(Fields::new(FILE, "text_config.", text))?;
        if top.boolean("tie_word_embeddings", false)? {
            return Err(unsupported("tie_word_embeddings true".to_owned()));
        }
        let vision = nested(top, "vision_config")?;
        let vision = vision_config(Fields::new(FILE, "vision_config.", vision), &text)?;
        let media = media_tokens(top, text.vocab_size)?;
        let root = json::object(HEAD_FILE, head)?;
        let head = head_config(Fields::new(HEAD_FILE, "", &root), &text)?;
        Ok(Self { text, vision, head, media })
    }
}

impl ClefConfig {
    /// Whether a `config.json` is of this architecture, which is all that can be said of it without the others.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for what is no configuration, [`Error::Unsupported`] for another architecture.
    pub fn check_architecture(config: &[u8]) -> Result<()> {
        let root = json::object(FILE, config)?;
        only(Fields::new(FILE, "", &root), "model_type", &["qwen3_5"])
    }
}

fn unsupported(need: String) -> Error {
    Error::Unsupported { device: "the CLEF loader".to_owned(), need }
}

fn nested<'a>(top: Fields<'a>, key: &str) -> Result<&'a serde_json::Map<String, serde_json::Value>> {
    top.object(key)?.ok_or_else(|| top.bad(key, "an object"))
}

/// A string field with few supported values.
fn only(fields: Fields<'_>, key: &str, supported: &[&str]) -> Result<()> {
    let found = fields.string(key)?.ok_or_else(|| fields.bad(key, &supported.join(" or ")))?;
    if supported.contains(&found) {
        return Ok(());
    }
    Err(unsupported(format!("{key} {} (supported: {})", shown(found), supported.join(", "))))
}

fn text_config(f: Fields<'_>) -> Result<TextConfig> {
    only(f, "hidden_act", &["silu"])?;
    if f.boolean("attention_bias", false)? {
        return Err(unsupported("attention_bias true".to_owned()));
    }
    let layers = f.required_size("num_hidden_layers", 1..=MAX_LAYERS)?;
    let rope = nested(f, "rope_parameters")?;
    let rope = Fields::new(FILE, "text_config.rope_parameters.", rope);
    only(rope, "rope_type", &["default"])?;
    if !rope.boolean("mrope_interleaved", true)? {
        return Err(unsupported("mrope_interleaved false".to_owned()));
    }
    let head_dim = f.required_size("head_dim", 2..=MAX_WIDTH)?;
    let factor = rope.positive("partial_rotary_factor", 1.0)?.unwrap_or(1.0);
    // As the reference: the integer part of the product.
    let rotary_dim = (head_dim as f64 * f64::from(factor)) as usize;
    if rotary_dim < 2 || !rotary_dim.is_multiple_of(2) {
        return Err(rope.bad("partial_rotary_factor", "a share that leaves an even number of columns"));
    }
    let config = TextConfig {
        vocab_size: f.required_size("vocab_size", 1..=MAX_VOCABULARY)?,
        hidden_size: f.required_size("hidden_size", 1..=MAX_WIDTH)?,
        intermediate_size: f.required_size("intermediate_size", 1..=MAX_FEED_FORWARD)?,
        layer_types: layer_types(f, layers)?,
        num_attention_heads: f.required_size("num_attention_heads", 1..=MAX_HEADS)?,
        num_key_value_heads: f.required_size("num_key_value_heads", 1..=MAX_HEADS)?,
        head_dim,
        linear_num_key_heads: f.required_size("linear_num_key_heads", 1..=MAX_HEADS)?,
        linear_num_value_heads: f.required_size("linear_num_value_heads", 1..=MAX_HEADS)?,
        linear_key_head_dim: f.required_size("linear_key_head_dim", 1..=MAX_WIDTH)?,
        linear_value_head_dim: f.required_size("linear_value_head_dim", 1..=MAX_WIDTH)?,
        linear_conv_kernel_dim: f.required_size("linear_conv_kernel_dim", 1..=16)?,
        rope_theta: f64::from(
            rope.positive("rope_theta", MAX_THETA)?
                .ok_or_else(|| rope.bad("rope_theta", "a positive number"))?,
        ),
        rotary_dim,
        mrope_section: mrope_section(rope, rotary_dim / 2)?,
        rms_norm_eps: f
            .positive("rms_norm_eps", MAX_EPSILON)?
            .ok_or_else(|| f.bad("rms_norm_eps", "a small positive number"))?,
        max_position_embeddings: f.required_size("max_position_embeddings", 1..=MAX_POSITIONS)?,
    };
    if !config.num_attention_heads.is_multiple_of(config.num_key_value_heads) {
        let allowed = format!("a divisor of num_attention_heads {}", config.num_attention_heads);
        return Err(f.bad("num_key_value_heads", &allowed));
    }
    if !config.linear_num_value_heads.is_multiple_of(config.linear_num_key_heads) {
        let allowed = format!("a divisor of linear_num_value_heads {}", config.linear_num_value_heads);
        return Err(f.bad("linear_num_key_heads", &allowed));
    }
    for (key, width) in [
        ("head_dim", 2 * config.query_dim()),
        ("linear_key_head_dim", config.linear_conv_dim()),
        ("linear_value_head_dim", config.linear_value_dim()),
    ] {
        if width as u64 > MAX_FEED_FORWARD {
            return Err(f.bad(key, &format!("a width that leaves at most {MAX_FEED_FORWARD} columns in all")));
        }
    }
    // The largest tensors, in their widest form, must be addressable here (32 bits in a browser).
    let widest = config.vocab_size.max(config.intermediate_size);
    if widest.checked_mul(config.hidden_size).and_then(|n| n.checked_mul(4)).is_none() {
        return Err(f.bad("hidden_size", "a width whose tables this machine can address"));
    }
    Ok(config)
}

fn layer_types(f: Fields<'_>, layers: usize) -> Result<Vec<LayerType>> {
    let allowed =
        format!("a list of {layers} (num_hidden_layers) of \"linear_attention\" and \"full_attention\"");
    let list = f.get("layer_types").and_then(|v| v.as_array());
    let types: Option<Vec<LayerType>> = list.and_then(|list| {
        let of = |v: &serde_json::Value| match v.as_str() {
            Some("linear_attention") => Some(LayerType::Linear),
            Some("full_attention") => Some(LayerType::Full),
            _ => None,
        };
        list.iter().map(of).collect()
    });
    types.filter(|t| t.len() == layers).ok_or_else(|| f.bad("layer_types", &allowed))
}

fn mrope_section(rope: Fields<'_>, half: usize) -> Result<[usize; 3]> {
    let list = rope.get("mrope_section").and_then(|v| v.as_array());
    let sizes: Option<Vec<usize>> = list.and_then(|list| {
        list.iter().map(|v| v.as_u64().filter(|&n| n <= MAX_WIDTH).map(|n| n as usize)).collect()
    });
    // The interleaved layout gives the rows every third frequency from 1 on, the columns every third from 2 on.
    match sizes.as_deref() {
        Some(&[t, h, w]) if t + h + w == half && 3 * h <= half + 2 && 3 * w <= half + 1 => Ok([t, h, w]),
        _ => Err(rope.bad(
            "mrope_section",
            &format!(
                "three whole numbers that add up to {half}, of which the last two fit every third place"
            ),
        )),
    }
}

fn vision_config(f: Fields<'_>, text: &TextConfig) -> Result<VisionConfig> {
    only(f, "hidden_act", &["gelu_pytorch_tanh"])?;
    if f.required_size("out_hidden_size", 1..=MAX_WIDTH)? != text.hidden_size {
        return Err(f.bad("out_hidden_size", &format!("{}, the decoder's width", text.hidden_size)));
    }
    if f.get("deepstack_visual_indexes").and_then(|v| v.as_array()).is_some_and(|v| !v.is_empty()) {
        return Err(unsupported("deepstack_visual_indexes".to_owned()));
    }
    let positions = f.required_size("num_position_embeddings", 1..=MAX_VOCABULARY)?;
    let rope_theta = match f.object("rope_parameters")? {
        Some(rope) => Fields::new(FILE, "vision_config.rope_parameters.", rope)
            .positive("rope_theta", MAX_THETA)?
            .unwrap_or(10_000.0),
        None => 10_000.0,
    };
    let config = VisionConfig {
        depth: f.required_size("depth", 1..=MAX_LAYERS)?,
        hidden_size: f.required_size("hidden_size", 1..=MAX_WIDTH)?,
        intermediate_size: f.required_size("intermediate_size", 1..=MAX_FEED_FORWARD)?,
        num_heads: f.required_size("num_heads", 1..=MAX_HEADS)?,
        position_side: positions.isqrt(),
        in_channels: f.required_size("in_channels", 1..=16)?,
        patch_size: f.required_size("patch_size", 1..=256)?,
        temporal_patch_size: f.required_size("temporal_patch_size", 1..=16)?,
        spatial_merge_size: f.required_size("spatial_merge_size", 1..=16)?,
        rope_theta: f64::from(rope_theta),
    };
    if config.position_side * config.position_side != positions {
        return Err(f.bad("num_position_embeddings", "a square number"));
    }
    if !config.hidden_size.is_multiple_of(4 * config.num_heads) {
        // Each head is rotated by row and by column, in pairs.
        return Err(f.bad("hidden_size", &format!("a multiple of four times num_heads {}", config.num_heads)));
    }
    Ok(config)
}

fn head_config(f: Fields<'_>, text: &TextConfig) -> Result<HeadConfig> {
    if f.required_size("hidden_size", 1..=MAX_WIDTH)? != text.hidden_size {
        let allowed =
            format!("{}, the backbone's width: head and backbone belong together", text.hidden_size);
        return Err(f.bad("hidden_size", &allowed));
    }
    let config = HeadConfig {
        width: f.required_size("width", 1..=MAX_WIDTH)?,
        routing_layers: f.required_size("routing_layers", 0..=64)?,
        layers: f.required_size("layers", 0..=64)?,
        heads: f.required_size("heads", 1..=MAX_HEADS)?,
        feedforward: f.required_size("feedforward", 1..=MAX_FEED_FORWARD)?,
    };
    if !config.width.is_multiple_of(config.heads) {
        return Err(f.bad("heads", &format!("a divisor of width {}", config.width)));
    }
    Ok(config)
}

fn media_tokens(top: Fields<'_>, vocabulary: usize) -> Result<MediaTokens> {
    let last = vocabulary as u64 - 1;
    let id = |key| {
        let id = top.integer(key, 0..=last)?.and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| top.bad(key, &format!("a token id from 0 to {last}")))
    };
    Ok(MediaTokens {
        image: id("image_token_id")?,
        video: id("video_token_id")?,
        vision_start: id("vision_start_token_id")?,
        vision_end: id("vision_end_token_id")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn small() -> (Value, Value) {
        let config = json!({
            "model_type": "qwen3_5", "image_token_id": 20, "video_token_id": 21, "vision_start_token_id": 22,
            "vision_end_token_id": 23,
            "text_config": {
                "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                "layer_types": ["linear_attention", "full_attention"], "num_attention_heads": 4,
                "num_key_value_heads": 2, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4,
                "rms_norm_eps": 1e-6, "vocab_size": 24, "max_position_embeddings": 64,
                "rope_parameters": {"rope_type": "default", "rope_theta": 10_000_000, "partial_rotary_factor": 0.5,
                    "mrope_interleaved": true, "mrope_section": [2, 1, 1]},
            },
            "vision_config": {
                "hidden_act": "gelu_pytorch_tanh", "depth": 1, "hidden_size": 16, "intermediate_size": 20,
                "num_heads": 2, "num_position_embeddings": 16, "in_channels": 3, "patch_size": 4,
                "temporal_patch_size": 2, "spatial_merge_size": 2, "out_hidden_size": 32,
            },
        });
        let head = json!({"hidden_size": 32, "width": 8, "routing_layers": 1, "layers": 1, "heads": 2, "feedforward": 12});
        (config, head)
    }

    fn read(config: &Value, head: &Value) -> Result<ClefConfig> {
        ClefConfig::from_json(config.to_string().as_bytes(), head.to_string().as_bytes())
    }

    /// `small()` with one value replaced; the path is dotted, `head.key` is in the head's file.
    fn with(path: &str, value: Value) -> Result<ClefConfig> {
        let (mut config, mut head) = small();
        let (mut at, rest) = match path.strip_prefix("head.") {
            Some(rest) => (&mut head, rest),
            None => (&mut config, path),
        };
        for key in rest.split('.') {
            at = &mut at[key];
        }
        *at = value;
        read(&config, &head)
    }

    #[test]
    fn a_sound_configuration() {
        let (config, head) = small();
        let c = read(&config, &head).expect("valid");
        assert_eq!((c.text.rotary_dim, c.text.mrope_section), (8, [2, 1, 1]));
        assert_eq!((c.vision.position_side, c.vision.patch_values(), c.vision.merge()), (4, 96, 4));
        assert_eq!((c.text.linear_conv_dim(), c.text.query_dim(), c.text.key_value_dim()), (64, 64, 32));
    }

    #[test]
    fn a_head_of_another_backbone_is_refused() {
        let error = with("head.hidden_size", json!(64)).expect_err("widths differ").to_string();
        assert!(
            error.contains("joint_head_config.json") && error.contains("32, the backbone's width"),
            "{error}"
        );
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (path, value, needle) in [
            ("model_type", json!("qwen3_vl"), "supported: qwen3_5"),
            ("model_type", Value::Null, "qwen3_5"),
            ("text_config", json!(1), "an object"),
            ("text_config.hidden_act", json!("gelu"), "supported: silu"),
            ("text_config.attention_bias", json!(true), "attention_bias"),
            ("text_config.layer_types", json!(["full_attention"]), "2 (num_hidden_layers)"),
            ("text_config.layer_types", json!(["full_attention", "sliding"]), "full_attention"),
            ("text_config.num_key_value_heads", json!(3), "divisor"),
            ("text_config.linear_num_key_heads", json!(3), "divisor"),
            ("text_config.hidden_size", json!(-1), "allowed"),
            ("text_config.vocab_size", json!(1e30), "allowed"),
            ("text_config.rope_parameters.mrope_section", json!([1, 1, 1]), "add up to 4"),
            ("text_config.rope_parameters.mrope_section", json!([0, 4, 0]), "add up to 4"),
            ("text_config.rope_parameters.rope_type", json!("yarn"), "supported: default"),
            ("text_config.rope_parameters.partial_rotary_factor", json!(0.01), "even number"),
            ("vision_config.out_hidden_size", json!(16), "decoder's width"),
            ("vision_config.num_position_embeddings", json!(15), "square"),
            ("vision_config.hidden_size", json!(18), "multiple of four"),
            ("tie_word_embeddings", json!(true), "tie_word_embeddings"),
            ("image_token_id", json!(24), "0 to 23"),
            ("head.heads", json!(3), "divisor"),
            ("head.width", Value::Null, "allowed"),
        ] {
            let error = with(path, value.clone()).expect_err(path).to_string();
            assert!(error.contains(needle), "{path} {value}: {error}");
        }
    }

    #[test]
    fn text_that_is_no_configuration() {
        for text in ["", "{", "[]", "null", "{}", "{\"model_type\": \"qwen3_5\"}"] {
            assert!(ClefConfig::from_json(text.as_bytes(), b"{}").is_err(), "{text}");
        }
        assert!(ClefConfig::from_json(&[b'['; 1 << 20], b"{}").is_err());
    }
}
