//! Synthetic checkpoints: random weights with trained-like statistics, at any model's real shapes, in the real file
//! format, the same bytes for the same seed on every machine. For benchmarks and memory figures at full size, never
//! for quality.

mod clef;
mod preset;
mod provenance;
mod recipe;
mod statistics;
mod tokenizer;
mod write;

pub use preset::{PRESETS, preset};
pub use provenance::Provenance;
pub use recipe::{Format, Recipe, Written};
pub use write::write;

/// Writes a CLEF model into `dir` as [`write()`] does, in one weight file of zeros that take no room where files may have holes:
/// for plans and memory figures at full size on any machine. Load it with the headers checked alone; it computes nothing.
///
/// # Errors
/// As [`write()`]; also for a configuration of another family.
pub fn hollow(dir: &std::path::Path, recipe: &Recipe) -> dikast_core::Result<Written> {
    clef::hollow(dir, recipe)
}

/// Whether [`write()`] may write a file of this name.
pub fn is_output(name: &str) -> bool {
    const OWN: [&str; 7] = [
        recipe::CONFIG,
        recipe::TOKENIZER,
        recipe::TOKENIZER_CONFIG,
        recipe::PROVENANCE,
        "joint_head_config.json",
        "processor_config.json",
        "model.safetensors.index.json",
    ];
    let shard = name.strip_prefix("model").or_else(|| name.strip_prefix("joint_head"));
    let shard = shard.and_then(|rest| rest.strip_suffix(".safetensors"));
    OWN.contains(&name) || shard.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
