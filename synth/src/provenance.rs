//! `provenance.json`: the note that tells synthetic weights from trained ones.

use dikast_core::checkpoint::ModelFiles;
use serde_json::{Value, json};

use crate::recipe::{PROVENANCE, Recipe};

/// Where synthetic weights came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provenance {
    /// What wrote them, with its version.
    pub tool: String,
    /// The preset or the folder that the configuration came from.
    pub like: String,
    /// How the projections are stored.
    pub quant: String,
    /// The seed; `None` where the file does not say.
    pub seed: Option<u64>,
}

impl Provenance {
    pub(crate) fn of(recipe: &Recipe) -> Self {
        Self {
            tool: concat!("dikast synth ", env!("CARGO_PKG_VERSION")).to_owned(),
            like: recipe.like.clone(),
            quant: recipe.format.name().to_owned(),
            seed: Some(recipe.seed),
        }
    }

    /// No date: the same seed gives the same bytes.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "synthetic": true,
            "note": "random weights with trained-like statistics; answers mean nothing",
            "tool": self.tool, "like": self.like, "quant": self.quant, "seed": self.seed,
        })
    }

    /// What a model's folder says of itself; `None` unless it calls its weights synthetic.
    pub fn read(files: &ModelFiles) -> Option<Self> {
        let json: Value = serde_json::from_slice(files.get(PROVENANCE)?.bytes()).ok()?;
        let text = |key: &str| json.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        json.get("synthetic").and_then(Value::as_bool).filter(|synthetic| *synthetic)?;
        Some(Self {
            tool: text("tool"),
            like: text("like"),
            quant: text("quant"),
            seed: json.get("seed").and_then(Value::as_u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dikast_core::checkpoint::Blob;

    fn read(text: &str) -> Option<Provenance> {
        let blob = Blob::Owned(text.as_bytes().to_vec().into());
        Provenance::read(&ModelFiles::from_memory("m", [(PROVENANCE.to_owned(), blob)]))
    }

    #[test]
    fn only_a_file_that_says_so_marks_weights_as_synthetic() {
        let own =
            Provenance { tool: "t".into(), like: "l".into(), quant: "fp8".into(), seed: Some(u64::MAX) };
        assert_eq!(read(&own.to_json().to_string()), Some(own));
        assert_eq!(read(r#"{"synthetic": true, "seed": -1}"#), Some(Provenance::default()));
        for other in [r#"{"synthetic": false}"#, r#"{"synthetic": "yes"}"#, "{}", "[]", "{", ""] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(Provenance::read(&ModelFiles::from_memory("m", [])), None);
    }
}
