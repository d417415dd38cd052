//! Opening a model: a folder, or one of those compiled into the program.

use std::path::Path;

use dikast_core::checkpoint::ModelFiles;
use serde_json::Value;

use crate::exit::{Failure, Result};

/// The files of the model in `dir`, or of the built-in classifier, whatever family it is of.
pub(crate) fn open(dir: Option<&Path>) -> Result<ModelFiles> {
    match dir {
        Some(dir) => ModelFiles::open(dir).map_err(Failure::Model),
        None => Ok(dikast_models::gliclass_mini()),
    }
}

/// The files of a model that judges texts by labels.
pub(crate) fn open_for_labels(dir: Option<&Path>) -> Result<ModelFiles> {
    let files = open(dir)?;
    match Family::of(&files) {
        Some(Family::Clef) => Err(other(&files, "CLEF model, which answers typed questions", "decide")),
        _ => Ok(files),
    }
}

/// The files of a model that answers typed questions.
pub(crate) fn open_for_decisions(dir: Option<&Path>) -> Result<ModelFiles> {
    let files = match dir {
        Some(dir) => ModelFiles::open(dir).map_err(Failure::Model)?,
        None => dikast_models::clef_mini(),
    };
    match Family::of(&files) {
        Some(Family::GliClass) => {
            Err(other(&files, "GLiClass model, which judges a text by labels", "classify"))
        }
        _ => Ok(files),
    }
}

/// Whether the files are those of a CLEF model.
pub(crate) fn is_clef(files: &ModelFiles) -> bool {
    Family::of(files) == Some(Family::Clef)
}

fn other(files: &ModelFiles, is: &str, command: &str) -> Failure {
    Failure::usage(format!("--model: {} is a {is}; use dikast {command}", files.name()))
}

/// What a model's files say that it is. What they do not say, the loader finds out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    GliClass,
    Clef,
}

impl Family {
    fn of(files: &ModelFiles) -> Option<Self> {
        let config: Value = serde_json::from_slice(files.get("config.json")?.bytes()).ok()?;
        let kind = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
        if kind == "GLiClass" || config.get("class_token_index").is_some() {
            Some(Self::GliClass)
        } else if files.get("joint_head_config.json").is_some() || kind.starts_with("qwen3_5") {
            Some(Self::Clef)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dikast_core::checkpoint::Blob;

    fn family(files: &[(&str, &'static str)]) -> Option<Family> {
        let blobs = files.iter().map(|(name, text)| ((*name).to_owned(), Blob::Static(text.as_bytes())));
        Family::of(&ModelFiles::from_memory("m", blobs))
    }

    #[test]
    fn families_are_told_by_their_files() {
        assert_eq!(family(&[("config.json", "{\"model_type\": \"GLiClass\"}")]), Some(Family::GliClass));
        assert_eq!(family(&[("config.json", "{\"model_type\": \"qwen3_5\"}")]), Some(Family::Clef));
        assert_eq!(family(&[("config.json", "{}"), ("joint_head_config.json", "{}")]), Some(Family::Clef));
        for text in ["{}", "[]", "{", "{\"model_type\": 3}"] {
            assert_eq!(family(&[("config.json", text)]), None, "{text}");
        }
        assert_eq!(family(&[]), None);
        assert_eq!(Family::of(&dikast_models::gliclass_mini()), Some(Family::GliClass));
        assert_eq!(Family::of(&dikast_models::clef_mini()), Some(Family::Clef));
    }
}
