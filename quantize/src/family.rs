//! Which family a folder belongs to, from its configuration.

use dikast_core::checkpoint::{Expected, ModelFiles};
use dikast_core::models::clef::{self, ClefConfig};
use dikast_core::models::gliclass::{self, GliClassConfig};
use dikast_core::{Error, Result};
use serde_json::Value;

/// The tensors that a model's folder must hold.
///
/// # Errors
/// [`Error::Checkpoint`] for a missing or faulty configuration; [`Error::Unsupported`] for a model of another family.
pub fn expected_tensors(files: &ModelFiles) -> Result<Expected> {
    const CONFIG: &str = "config.json";
    let config = files.read(CONFIG)?.bytes();
    let json: Value = serde_json::from_slice(config).map_err(|e| Error::checkpoint(CONFIG, e.to_string()))?;
    if json.get("model_type").and_then(Value::as_str) == Some("qwen3_5") {
        let head = files.read("joint_head_config.json")?.bytes();
        return Ok(clef::expected_tensors(&ClefConfig::from_json(config, head)?));
    }
    Ok(gliclass::expected_tensors(&GliClassConfig::from_json(config)?))
}
