//! What a caller may ask, parsed and checked with limits.

mod classify;
mod labels;
pub mod limits;

pub use classify::{Chunking, ClassifyRequest, Example, Mode, Strictness, Truncation};
pub use labels::LabelSet;
