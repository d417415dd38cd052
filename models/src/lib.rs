//! The small default models of Dikast, compiled in.
//!
//! Each function returns the files of one model; their bytes are part of the program, nothing is read or copied.

use dikast_core::checkpoint::{Blob, ModelFiles};

/// The name under which [`gliclass_mini`] is known.
pub const GLICLASS_MINI: &str = "gliclass-mini";

/// The zero-shot text classifier that ships inside the program (see `gliclass-mini/MODEL_CARD.md`).
pub fn gliclass_mini() -> ModelFiles {
    let files: [(&str, &'static [u8]); 4] = [
        ("config.json", include_bytes!("../gliclass-mini/config.json")),
        ("model.safetensors", include_bytes!("../gliclass-mini/model.safetensors")),
        ("tokenizer.json", include_bytes!("../gliclass-mini/tokenizer.json")),
        ("tokenizer_config.json", include_bytes!("../gliclass-mini/tokenizer_config.json")),
    ];
    ModelFiles::from_memory(
        GLICLASS_MINI,
        files.into_iter().map(|(name, bytes)| (name.to_owned(), Blob::Static(bytes))),
    )
}

/// The name under which [`clef_mini`] is known.
pub const CLEF_MINI: &str = "clef-mini";

/// The model for typed questions about text, JSON and pictures that ships inside the program, its large matrices as
/// INT8 ConvRot (see `clef-mini/MODEL_CARD.md`).
pub fn clef_mini() -> ModelFiles {
    let files: [(&str, &'static [u8]); 7] = [
        ("config.json", include_bytes!("../clef-mini/config.json")),
        ("joint_head.safetensors", include_bytes!("../clef-mini/joint_head.safetensors")),
        ("joint_head_config.json", include_bytes!("../clef-mini/joint_head_config.json")),
        ("model.safetensors", include_bytes!("../clef-mini/model.safetensors")),
        ("processor_config.json", include_bytes!("../clef-mini/processor_config.json")),
        ("tokenizer.json", include_bytes!("../clef-mini/tokenizer.json")),
        ("tokenizer_config.json", include_bytes!("../clef-mini/tokenizer_config.json")),
    ];
    ModelFiles::from_memory(
        CLEF_MINI,
        files.into_iter().map(|(name, bytes)| (name.to_owned(), Blob::Static(bytes))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_there() {
        let model = gliclass_mini();
        assert_eq!(model.name(), GLICLASS_MINI);
        let len = |name: &str| model.get(name).map(|blob| blob.bytes().len());
        assert_eq!(len("model.safetensors"), Some(42_516_524));
        assert!(len("config.json").is_some() && len("tokenizer.json").is_some());
        assert!(len("eval.jsonl").is_none(), "evaluation data is not part of the program");
        let model = clef_mini();
        assert_eq!(model.name(), CLEF_MINI);
        let bytes: usize = model.names().filter_map(|name| model.get(name)).map(|b| b.bytes().len()).sum();
        assert!(bytes < 32 << 20, "{bytes} bytes are too many for a program");
        assert!(model.get("eval.jsonl").is_none(), "evaluation data is not part of the program");
    }
}
