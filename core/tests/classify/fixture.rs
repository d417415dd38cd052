//! Files, configurations and requests of the goldens.

use dikast_core::models::gliclass::{ClassPooling, GliClassConfig, Mt5Config, Pooling, Scorer};
use dikast_core::request::{ClassifyRequest, LabelSet, Mode, Strictness, Truncation};
use dikast_core::tokens::Tokenizer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub(crate) static TINY: LazyLock<GliClassConfig> = LazyLock::new(|| config(&tiny("mt5/config.json")));
pub(crate) static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    Tokenizer::from_bytes(&std::fs::read(tiny_path("mt5/tokenizer.json")).unwrap()).unwrap()
});

pub(crate) fn tiny_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/gliclass-tiny").join(name)
}

pub(crate) fn mini_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/gliclass-mini").join(name)
}

pub(crate) fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub(crate) fn tiny(name: &str) -> Value {
    read(&tiny_path(name))
}

/// The fields that tokens and positions depend on; the encoder's sizes are left out.
pub(crate) fn config(json: &Value) -> GliClassConfig {
    let id = |key: &str| json[key].as_u64().unwrap() as u32;
    let flag = |key: &str| json[key].as_bool().unwrap();
    GliClassConfig {
        encoder: Mt5Config {
            vocab_size: json["encoder_config"]["vocab_size"].as_u64().unwrap() as usize,
            d_model: 0,
            d_kv: 0,
            d_ff: 0,
            num_layers: 0,
            num_heads: 0,
            relative_attention_num_buckets: 0,
            relative_attention_max_distance: 0,
            layer_norm_epsilon: 0.0,
        },
        hidden_size: 0,
        class_token_index: id("class_token_index"),
        text_token_index: id("text_token_index"),
        example_token_index: id("example_token_index"),
        prompt_first: flag("prompt_first"),
        embed_class_token: flag("embed_class_token"),
        extract_text_features: flag("extract_text_features"),
        class_token_pooling: match json["class_token_pooling"].as_str().unwrap() {
            "average" => ClassPooling::Average,
            _ => ClassPooling::First,
        },
        pooling: match json["pooling_strategy"].as_str().unwrap() {
            "pass" => Pooling::Pass,
            _ => Pooling::Avg,
        },
        scorer: Scorer::Simple,
        scorer_num_heads: 0,
        scorer_mlp_hidden_size: 0,
        normalize_features: false,
        use_lstm: false,
        use_segment_embeddings: flag("use_segment_embeddings"),
        max_labels: None,
    }
}

/// What the reference does: cut on the right, accept everything.
pub(crate) fn as_reference(mut request: ClassifyRequest) -> ClassifyRequest {
    request.truncation = Truncation::Right;
    request.strictness =
        Strictness { allow_duplicate_labels: true, allow_markers: true, allow_empty_labels: true };
    request
}

/// The `i`-th text of a golden call as a strict request.
pub(crate) fn request(golden: &Value, i: usize) -> ClassifyRequest {
    let call = &golden["call"];
    let per_text = |value: &Value| if value.is_array() { value[i].clone() } else { value.clone() };
    let labels = match &golden["labels"] {
        Value::Array(items) if !items[0].is_string() => &items[i],
        shared => shared,
    };
    let examples = match &call["examples"] {
        Value::Array(items) if items.iter().any(|item| !item.is_object()) => items[i].clone(),
        shared => shared.clone(),
    };
    let mut json = json!({
        "text": golden["texts"][i], "labels": labels, "examples": examples,
        "threshold": per_text(&call["threshold"]), "prompt": per_text(&call["prompt"]),
        "classification_type": per_text(&call["classification_type"]), "max_tokens": golden["max_length"],
        "allow_duplicate_labels": true,
    });
    json.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let mut request = ClassifyRequest::from_json(&json).unwrap();
    request.strictness = Strictness::default();
    request
}

pub(crate) fn simple(text: &str, labels: &[&str]) -> ClassifyRequest {
    ClassifyRequest::new(text, LabelSet::flat(labels.iter().copied()))
}

pub(crate) fn single(request: ClassifyRequest) -> ClassifyRequest {
    ClassifyRequest { mode: Mode::SingleLabel, ..request }
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

pub(crate) fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

/// Golden ids without the padding, which stands at the right with mask 0.
pub(crate) fn attended_ids(golden: &Value, i: usize) -> Vec<u32> {
    let mask = ids(&golden["attention_mask"][i]);
    let attended = mask.iter().filter(|&&m| m == 1).count();
    assert!(mask[..attended].iter().all(|&m| m == 1));
    ids(&golden["input_ids"][i])[..attended].to_vec()
}
