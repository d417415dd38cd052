//! Logits → probabilities → labels.

mod assemble;
mod classification;
mod decide;
mod probabilities;

pub use assemble::assemble;
pub use classification::{Classification, Receipt, ScoredLabel};
pub use decide::{Answer, DecideOutput, DecideReceipt, Decision, StateTokens, decide};
