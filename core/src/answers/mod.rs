//! Logits → probabilities → labels.

mod classification;

pub use classification::{Classification, Receipt, ScoredLabel};
