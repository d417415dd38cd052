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
