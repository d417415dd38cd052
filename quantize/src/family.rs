//! Which family a folder belongs to, from its configuration.

use dikast_core::checkpoint::{Checks, Expected, ModelFiles, Weights};
use dikast_core::models::clef::{self, Clef, ClefConfig, ClefOptions};
use dikast_core::models::gliclass::{self, GliClass, GliClassConfig};
use dikast_core::{Error, Result};
use serde_json::Value;

const CONFIG: &str = "config.json";

/// Names of modules that run as one product, and so must be stored in one format.
const ALIKE: [&[&str]; 3] = [
    &["SelfAttention.q", "SelfAttention.k", "SelfAttention.v"],
    &["DenseReluDense.wi_0", "DenseReluDense.wi_1"],
    &["mlp.gate_proj", "mlp.up_proj"],
];

/// Whether the configuration is that of a CLEF model.
pub(crate) fn is_clef(files: &ModelFiles) -> Result<bool> {
    let config = files.read(CONFIG)?.bytes();
    let json: Value = serde_json::from_slice(config).map_err(|e| Error::checkpoint(CONFIG, e.to_string()))?;
    Ok(json.get("model_type").and_then(Value::as_str) == Some("qwen3_5"))
}

/// The tensors that a model's folder must hold.
///
/// # Errors
/// [`Error::Checkpoint`] for a missing or faulty configuration; [`Error::Unsupported`] for a model of another family.
pub fn expected_tensors(files: &ModelFiles) -> Result<Expected> {
    let config = files.read(CONFIG)?.bytes();
    if is_clef(files)? {
        let head = files.read("joint_head_config.json")?.bytes();
        return Ok(clef::expected_tensors(&ClefConfig::from_json(config, head)?));
    }
    Ok(gliclass::expected_tensors(&GliClassConfig::from_json(config)?))
}

/// Whether a written folder runs: its forward pass is built over its headers.
///
/// # Errors
/// As the loaders of the families.
pub(crate) fn check_runs(files: &ModelFiles, weights: &Weights) -> Result<()> {
    if is_clef(files)? {
        // A folder of weights without its tokenizer is somebody's to complete.
        if files.get("tokenizer.json").is_some() && files.get("processor_config.json").is_some() {
            Clef::load_with(files, ClefOptions { checks: Checks::HEADERS, ..ClefOptions::default() })?;
        }
        return Ok(());
    }
    let config = GliClassConfig::from_json(files.read(CONFIG)?.bytes())?;
    GliClass::build_graph(&config, weights).map(drop)
}

/// The other modules that run as one product with this one.
pub(crate) fn stored_alike(module: &str) -> Vec<String> {
    for names in ALIKE {
        for name in names {
            if let Some(before) = module.strip_suffix(name) {
                let others = names.iter().filter(|other| *other != name);
                return others.map(|other| format!("{before}{other}")).collect();
            }
        }
    }
    Vec::new()
}
