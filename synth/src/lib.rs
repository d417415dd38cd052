//! Synthetic checkpoints: random weights with trained-like statistics, at any model's real shapes, in the real file
//! format, the same bytes for the same seed on every machine. For benchmarks and memory figures at full size, never
//! for quality.

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

/// Names of all files that [`write()`] may write.
pub const FILES: [&str; 5] =
    [recipe::CONFIG, recipe::TOKENIZER, recipe::TOKENIZER_CONFIG, recipe::PROVENANCE, recipe::WEIGHTS];
