//! What a file of codes says of itself, as this program writes it.

use serde_json::{Map, Value, json};

use super::calibration::{CALIBRATION, Sums};
use super::{FORMAT, MARKER, METADATA};
use crate::checkpoint::FileNotes;
use crate::numerics::hadamard::Group;
use crate::{Error, Result};

/// How the codes of a file were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Name, for example `absmax`.
    pub name: String,
    /// Version of the recipe.
    pub version: u32,
}

/// One matrix that is stored as codes.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8Layer {
    module: String,
    rotation: Option<Group>,
    sums: Sums,
}

impl Int8Layer {
    /// A module whose first row has these codes and this scale.
    pub fn new(module: impl Into<String>, rotation: Option<Group>, codes: &[i8], scale: f32) -> Self {
        Self { module: module.into(), rotation, sums: Sums::of(codes, scale, rotation) }
    }

    /// The name of the module.
    pub fn module(&self) -> &str {
        &self.module
    }

    /// The name of the tensor that says how a module's codes are to be read.
    pub fn marker(module: &str) -> String {
        format!("{module}.{MARKER}")
    }

    fn description(&self) -> Value {
        match self.rotation {
            Some(group) => json!({"format": FORMAT, "convrot": true, "convrot_groupsize": group.size()}),
            None => json!({"format": FORMAT, "convrot": false}),
        }
    }

    /// Markers and metadata of a file that holds these layers: `MODULE.comfy_quant` for each, all of them again under
    /// `_quantization_metadata`, and recipe and sums under `engine_calibration`.
    ///
    /// # Errors
    /// [`Error::Internal`] when a sum is not finite.
    pub fn notes(layers: &[Self], recipe: &Recipe) -> Result<FileNotes> {
        let mut notes = FileNotes::default();
        let (mut described, mut recorded) = (Map::new(), Map::new());
        for layer in layers {
            let Sums { check, check_abs } = layer.sums;
            if !check_abs.is_finite() {
                return Err(Error::Internal(format!("{}: the first row sums to {check_abs}", layer.module)));
            }
            let description = layer.description();
            notes.markers.insert(Self::marker(&layer.module), description.to_string().into_bytes());
            described.insert(layer.module.clone(), description);
            recorded.insert(layer.module.clone(), json!({"check": check, "check_abs": check_abs}));
        }
        let described = json!({"format_version": "1.0", "layers": described});
        let recorded = json!({
            "format_version": "1.0",
            "recipe": {"name": recipe.name, "version": recipe.version},
            "layers": recorded,
        });
        notes.metadata.insert(METADATA.to_owned(), described.to_string());
        notes.metadata.insert(CALIBRATION.to_owned(), recorded.to_string());
        Ok(notes)
    }
}
