//! Reads `config.json` of a GLiClass checkpoint.

use super::{ClassPooling, GliClassConfig, Mt5Config, Pooling, Scorer};
use crate::checkpoint::json::{self, Fields};
use crate::checkpoint::shown;
use crate::request::limits;
use crate::{Error, Result};

const FILE: &str = "config.json";

// Bounds that no published model comes near, and within which no product of sizes below can overflow 64 bits.
const MAX_WIDTH: u64 = 1 << 16;
const MAX_FEED_FORWARD: u64 = 1 << 20;
const MAX_VOCABULARY: u64 = 1 << 24;
const MAX_LAYERS: u64 = 1 << 10;
const MAX_HEADS: u64 = 1 << 10;
const MAX_BUCKETS: u64 = 1 << 12;
const MAX_DISTANCE: u64 = 1 << 20;
const MAX_EPSILON: f32 = 1e-2;
// A request has no more, and the class slots of a fixed number are all computed, used or not.
const MAX_LABELS: u64 = limits::MAX_LABELS as u64;

impl GliClassConfig {
    /// Reads and checks a `config.json`. Absent and `null` fields take the defaults of the published package, except
    /// the encoder's sizes and the marker ids, which must be there; fields that do not matter to inference are not
    /// looked at.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] naming the key, the value found and what is allowed; [`Error::Unsupported`] for a model
    /// that is well formed but of a kind that this engine does not run.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let root = json::object(FILE, bytes)?;
        let top = Fields::new(FILE, "", &root);
        check_kind(top)?;
        let nested = top.object("encoder_config")?.ok_or_else(|| top.bad("encoder_config", "an object"))?;
        let encoder = encoder(Fields::new(FILE, "encoder_config.", nested), top)?;

        let hidden_size = top.size("hidden_size", 1..=MAX_WIDTH)?.unwrap_or(encoder.d_model);
        if hidden_size != encoder.d_model {
            return Err(top.bad("hidden_size", &format!("{}, the encoder's width", encoder.d_model)));
        }
        let use_lstm = top.boolean("use_lstm", false)?;
        if use_lstm && !hidden_size.is_multiple_of(2) {
            return Err(top.bad("hidden_size", "an even number with use_lstm"));
        }
        let (pooling, scorer) = (pooling(top)?, scorer(top)?);
        if (scorer == Scorer::CrossAttn) != (pooling == Pooling::Pass) {
            let of = |key| top.get(key).map_or_else(|| "absent".to_owned(), json::short);
            let (pooling, scorer) = (of("pooling_strategy"), of("scorer_type"));
            return Err(unsupported(format!(
                "pooling_strategy {pooling} with scorer_type {scorer} (\"pass\" and \"cross-attn\" go only together)"
            )));
        }
        let scorer_num_heads = top.size("scorer_num_heads", 1..=MAX_WIDTH)?.unwrap_or(16);
        if scorer == Scorer::CrossAttn && !hidden_size.is_multiple_of(scorer_num_heads) {
            return Err(
                top.bad("scorer_num_heads", &format!("a divisor of hidden_size {hidden_size} (default 16)"))
            );
        }
        let marker = |key| {
            let last = encoder.vocab_size as u64 - 1;
            let id = top.integer(key, 0..=last)?.and_then(|id| u32::try_from(id).ok());
            // The package's default is the size before the markers were added, which no file records.
            id.ok_or_else(|| top.bad(key, &format!("a token id from 0 to {last}")))
        };
        Ok(Self {
            hidden_size,
            class_token_index: marker("class_token_index")?,
            text_token_index: marker("text_token_index")?,
            example_token_index: marker("example_token_index")?,
            prompt_first: top.boolean("prompt_first", false)?,
            embed_class_token: top.boolean("embed_class_token", true)?,
            extract_text_features: top.boolean("extract_text_features", false)?,
            class_token_pooling: top.choice(
                "class_token_pooling",
                ClassPooling::First,
                &ClassPooling::ALL.map(|p| (p.name(), p)),
            )?,
            pooling,
            scorer,
            scorer_num_heads,
            scorer_mlp_hidden_size: top.size("scorer_mlp_hidden_size", 2..=MAX_FEED_FORWARD)?.unwrap_or(1024),
            normalize_features: top.boolean("normalize_features", false)?,
            use_lstm,
            use_segment_embeddings: top.boolean("use_segment_embeddings", false)?,
            max_labels: max_labels(top)?,
            encoder,
        })
    }
}

fn unsupported(need: String) -> Error {
    Error::Unsupported { device: "the GLiClass loader".to_owned(), need }
}

/// A string field that has one supported value, which is also its default.
fn only(fields: Fields<'_>, key: &str, supported: &[&str], absent: &str) -> Result<()> {
    let found = fields.string(key)?.unwrap_or(absent);
    if supported.contains(&found) {
        return Ok(());
    }
    let value = fields.get(key).map_or_else(|| format!("{absent:?} (the default)"), json::short);
    Err(unsupported(format!("{key} {value} (supported: {})", supported.join(", "))))
}

/// What kind of model this is; everything that this engine does not run is refused by name.
fn check_kind(top: Fields<'_>) -> Result<()> {
    only(top, "model_type", &["GLiClass"], "GLiClass")?;
    only(top, "architecture_type", &["uni-encoder"], "uni-encoder")?;
    only(top, "projector_hidden_act", &["gelu"], "gelu")?;
    for key in ["squeeze_layers", "use_calibrator", "multimodal", "use_embedding_projection"] {
        if top.boolean(key, false)? {
            return Err(unsupported(format!("{key} true")));
        }
    }
    for (key, neutral) in [("encoder_layer_id", -1), ("recurrent_steps", 1)] {
        match top.get(key) {
            None => {}
            Some(value) => match value.as_i64() {
                Some(n) if n == neutral => {}
                Some(n) => return Err(unsupported(format!("{key} {n} (supported: {neutral})"))),
                None => return Err(top.bad(key, "a whole number")),
            },
        }
    }
    check_quantization(top)
}

/// The types of the tensors decide how the encoder is quantized, not the configuration. A scheme that the
/// configuration names must be the one that this engine runs, also where no tensor is stored that way.
fn check_quantization(top: Fields<'_>) -> Result<()> {
    let Some(config) = top.object("quantization_config")? else { return Ok(()) };
    let config = Fields::new(FILE, "quantization_config.", config);
    only(config, "quant_method", &["compressed-tensors"], "compressed-tensors")?;
    only(config, "format", &["float-quantized"], "float-quantized")?;
    let Some(groups) = config.object("config_groups")? else { return Ok(()) };
    for (name, group) in groups {
        let Some(group) = group.as_object() else {
            return Err(config.bad("config_groups", "an object of objects"));
        };
        let group = Fields::new(FILE, "quantization_config.config_groups.*.", group);
        for (key, strategy, dynamic) in [("weights", "channel", false), ("input_activations", "token", true)]
        {
            let Some(scheme) = group.object(key)? else {
                return Err(unsupported(format!("quantization group {} without {key}", shown(name))));
            };
            let scheme = Fields::new(FILE, "quantization_config.config_groups.*.*.", scheme);
            only(scheme, "type", &["float"], "float")?;
            only(scheme, "strategy", &[strategy], strategy)?;
            let same = scheme.integer("num_bits", 1..=64)?.unwrap_or(8) == 8
                && scheme.boolean("dynamic", dynamic)? == dynamic
                && scheme.boolean("symmetric", true)?;
            if !same {
                return Err(unsupported(format!(
                    "{key} of quantization group {} (supported: 8 bits, symmetric, dynamic {dynamic})",
                    shown(name)
                )));
            }
        }
    }
    Ok(())
}

fn encoder(fields: Fields<'_>, top: Fields<'_>) -> Result<Mt5Config> {
    only(fields, "model_type", &["mt5", "t5"], "nothing")?;
    // T5's own default, without a gate, is not supported; mT5's is.
    let absent = if fields.string("model_type")? == Some("t5") { "relu" } else { "gated-gelu" };
    only(fields, "feed_forward_proj", &["gated-gelu"], absent)?;

    let vocab_size = match fields.size("vocab_size", 1..=MAX_VOCABULARY)? {
        Some(n) => n,
        None => top.required_size("vocab_size", 1..=MAX_VOCABULARY)?,
    };
    let config = Mt5Config {
        vocab_size,
        d_model: fields.required_size("d_model", 1..=MAX_WIDTH)?,
        d_kv: fields.required_size("d_kv", 1..=MAX_WIDTH)?,
        d_ff: fields.required_size("d_ff", 1..=MAX_FEED_FORWARD)?,
        num_layers: fields.required_size("num_layers", 1..=MAX_LAYERS)?,
        num_heads: fields.required_size("num_heads", 1..=MAX_HEADS)?,
        relative_attention_num_buckets: fields
            .size("relative_attention_num_buckets", 4..=MAX_BUCKETS)?
            .unwrap_or(32),
        relative_attention_max_distance: fields
            .size("relative_attention_max_distance", 2..=MAX_DISTANCE)?
            .unwrap_or(128),
        layer_norm_epsilon: fields.positive("layer_norm_epsilon", MAX_EPSILON)?.unwrap_or(1e-6),
    };
    let buckets = config.relative_attention_num_buckets;
    // Half of them for each direction, of which half are exact.
    if !buckets.is_multiple_of(4) {
        return Err(fields.bad("relative_attention_num_buckets", "a multiple of four"));
    }
    // Buckets up to a quarter are exact; the logarithm from there to the distance must be positive.
    if config.relative_attention_max_distance <= buckets / 4 {
        let allowed = format!("more than a quarter of the {buckets} buckets");
        return Err(fields.bad("relative_attention_max_distance", &allowed));
    }
    if (config.d_kv * config.num_heads) as u64 > MAX_WIDTH {
        return Err(fields.bad("d_kv", &format!("at most {MAX_WIDTH} over all {} heads", config.num_heads)));
    }
    // The largest tensor, in its widest form, must be addressable here (32 bits in a browser).
    let table = config.vocab_size.checked_mul(config.d_model).and_then(|n| n.checked_mul(4));
    let feed_forward = config.d_ff.checked_mul(config.d_model).and_then(|n| n.checked_mul(4));
    if table.is_none() || feed_forward.is_none() {
        return Err(fields.bad("d_model", "a width whose tables this machine can address"));
    }
    Ok(config)
}

fn pooling(top: Fields<'_>) -> Result<Pooling> {
    top.choice("pooling_strategy", Pooling::First, &Pooling::ALL.map(|p| (p.name(), p)))
}

fn scorer(top: Fields<'_>) -> Result<Scorer> {
    if top.string("scorer_type")? == Some("decoder-kv") {
        return Err(unsupported("scorer_type \"decoder-kv\"".to_owned()));
    }
    top.choice("scorer_type", Scorer::Simple, &Scorer::ALL.map(|s| (s.name(), s)))
}

/// `max_labels_alloc`: a number, `"dynamic"` (the default: no limit), or `"fixed"` (`max_num_classes`, default 25).
fn max_labels(top: Fields<'_>) -> Result<Option<usize>> {
    match top.get("max_labels_alloc").map(|v| v.as_str()) {
        None | Some(Some("dynamic")) => Ok(None),
        Some(Some("fixed")) => Ok(Some(top.size("max_num_classes", 1..=MAX_LABELS)?.unwrap_or(25))),
        Some(Some(_)) => Err(top.bad("max_labels_alloc", "\"dynamic\", \"fixed\" or a number of labels")),
        Some(None) => top.size("max_labels_alloc", 1..=MAX_LABELS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn small() -> Value {
        json!({
            "class_token_index": 10, "text_token_index": 11, "example_token_index": 12,
            "encoder_config": {
                "model_type": "mt5", "vocab_size": 13, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 3,
            },
        })
    }

    fn read(value: &Value) -> Result<GliClassConfig> {
        GliClassConfig::from_json(value.to_string().as_bytes())
    }

    /// `small()` with one value replaced; the path is `key` or `encoder_config.key`.
    fn with(path: &str, value: Value) -> Value {
        let mut config = small();
        let mut at = &mut config;
        for key in path.split('.') {
            at = &mut at[key];
        }
        *at = value;
        config
    }

    #[test]
    fn absent_fields_take_the_defaults() {
        let c = read(&small()).expect("valid");
        assert_eq!(c.encoder.relative_attention_num_buckets, 32);
        assert_eq!(c.encoder.relative_attention_max_distance, 128);
        assert_eq!(c.encoder.layer_norm_epsilon, 1e-6);
        assert_eq!((c.hidden_size, c.scorer_num_heads, c.scorer_mlp_hidden_size), (8, 16, 1024));
        assert_eq!(
            (c.scorer, c.pooling, c.class_token_pooling),
            (Scorer::Simple, Pooling::First, ClassPooling::First)
        );
        assert!(!c.prompt_first && !c.extract_text_features && !c.normalize_features && c.embed_class_token);
        assert!(!c.use_lstm && !c.use_segment_embeddings);
        assert_eq!(c.max_labels, None);
        assert_eq!(read(&with("hidden_size", Value::Null)), Ok(c));
    }

    #[test]
    fn label_limits() {
        let limit = |v| read(&with("max_labels_alloc", v)).map(|c| c.max_labels);
        assert_eq!(limit(json!("dynamic")), Ok(None));
        assert_eq!(limit(json!("fixed")), Ok(Some(25)));
        assert_eq!(limit(json!(7)), Ok(Some(7)));
        assert_eq!(limit(json!(4096)), Ok(Some(4096)));
        assert!(limit(json!(4097)).is_err() && limit(json!(1 << 20)).is_err());
        assert!(limit(json!(0)).is_err() && limit(json!("7")).is_err() && limit(json!(true)).is_err());
    }

    #[test]
    fn older_files() {
        let mut c = with("encoder_config.model_type", json!("t5"));
        assert!(matches!(read(&c), Err(Error::Unsupported { need, .. }) if need.contains("relu")));
        c["encoder_config"]["feed_forward_proj"] = json!("gated-gelu");
        assert!(read(&c).is_ok());
    }

    #[test]
    fn unsupported_models_are_named() {
        for (path, value) in [
            ("architecture_type", json!("bi-encoder")),
            ("architecture_type", json!("encoder-decoder")),
            ("model_type", json!("bert")),
            ("encoder_config.model_type", json!("deberta-v2")),
            ("encoder_config.model_type", json!("modernbert")),
            ("encoder_config.model_type", json!("qwen3")),
            ("encoder_config.feed_forward_proj", json!("relu")),
            ("encoder_config.feed_forward_proj", json!("gated-silu")),
            ("encoder_layer_id", json!(1)),
            ("squeeze_layers", json!(true)),
            ("use_calibrator", json!(true)),
            ("scorer_type", json!("decoder-kv")),
            ("scorer_type", json!("cross-attn")),
            ("pooling_strategy", json!("pass")),
            ("projector_hidden_act", json!("relu")),
            ("quantization_config", json!({"quant_method": "gptq"})),
        ] {
            let error = read(&with(path, value.clone())).expect_err(path);
            let key = path.rsplit('.').next().expect("a key");
            let value = value.as_str().unwrap_or("");
            assert!(
                matches!(&error, Error::Unsupported { need, .. } if need.contains(value)),
                "{path} {value}: {error}"
            );
            assert!(error.to_string().contains(key) || key == "quantization_config", "{path}: {error}");
        }
    }

    #[test]
    fn numbers_are_bounded() {
        let sizes = ["vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads"];
        let more =
            ["relative_attention_num_buckets", "relative_attention_max_distance", "layer_norm_epsilon"];
        let nested = sizes.iter().chain(&more).map(|k| format!("encoder_config.{k}"));
        let top = ["hidden_size", "scorer_num_heads", "scorer_mlp_hidden_size", "text_token_index"]
            .map(str::to_owned);
        for path in nested.chain(top) {
            for bad in
                [json!(-1), json!(1e30), json!(u64::MAX), json!("8"), json!([8]), json!(true), json!(1e-300)]
            {
                let error = read(&with(&path, bad.clone())).expect_err(&path);
                let named = |item: &String| item.ends_with(path.rsplit('.').next().expect("a key"));
                assert!(
                    matches!(&error, Error::Checkpoint { item, .. } if named(item)),
                    "{path} {bad}: {error}"
                );
                assert!(error.to_string().contains("allowed: "), "{error}");
            }
        }
        for path in sizes.map(|k| format!("encoder_config.{k}")) {
            assert!(read(&with(&path, json!(0))).is_err(), "{path}");
            assert!(read(&with(&path, json!(8.5))).is_err(), "{path}");
            let absent = read(&with(&path, Value::Null)).expect_err(&path).to_string();
            assert!(absent.contains("found, allowed: a whole number"), "{absent}");
        }
    }

    #[test]
    fn sizes_must_agree() {
        for (path, value, needle) in [
            ("hidden_size", json!(16), "8, the encoder's width"),
            ("class_token_index", json!(13), "0 to 12"),
            ("example_token_index", Value::Null, "0 to 12"),
            ("encoder_config.relative_attention_num_buckets", json!(34), "multiple of four"),
            ("encoder_config.relative_attention_max_distance", json!(8), "quarter"),
            ("encoder_config.d_kv", json!(65536), "all 3 heads"),
        ] {
            let error = read(&with(path, value)).expect_err(path).to_string();
            assert!(error.contains(needle), "{error}");
        }
        let mut c = with("encoder_config.d_model", json!(7));
        c["use_lstm"] = json!(true);
        assert!(read(&c).expect_err("odd").to_string().contains("even"));
        let mut c = with("scorer_type", json!("cross-attn"));
        c["pooling_strategy"] = json!("pass");
        assert!(read(&c).expect_err("16 heads").to_string().contains("divisor of hidden_size 8"));
        c["scorer_num_heads"] = json!(4);
        assert!(read(&c).is_ok());
    }

    #[test]
    fn text_that_is_no_configuration() {
        for text in ["", "{", "[]", "null", "\u{0}", "{\"encoder_config\": 1}", "{\"encoder_config\": {}}"] {
            assert!(GliClassConfig::from_json(text.as_bytes()).is_err(), "{text}");
        }
        assert!(GliClassConfig::from_json(&[b'['; 1 << 20]).is_err());
        assert!(GliClassConfig::from_json("{\"a\":".repeat(100_000).as_bytes()).is_err());
        assert!(GliClassConfig::from_json(&vec![b' '; (16 << 20) + 1]).is_err());
    }
}
