//! Logits → probabilities → labels.

mod assemble;
mod classification;
mod probabilities;

pub use assemble::assemble;
pub use classification::{Classification, Receipt, ScoredLabel};
