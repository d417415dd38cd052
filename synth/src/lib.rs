//! Synthetic checkpoints: random weights with trained-like statistics, at any model's real shapes, in the real file
//! format, the same bytes for the same seed on every machine. For benchmarks and memory figures at full size, never
//! for quality.

mod preset;
mod statistics;
mod tokenizer;
mod write;

pub use preset::{PRESETS, preset};
pub use write::{Format, write};
