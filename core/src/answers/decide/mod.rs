//! Logits of options → typed answers.

mod assemble;
mod confidence;
mod decision;
mod output;

pub use assemble::decide;
pub use decision::{Answer, DecideReceipt, Decision, StateTokens};
pub use output::DecideOutput;
