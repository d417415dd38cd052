//! The formats on the wire as pure functions: a JSON value becomes a request of the core, an answer becomes JSON.
//!
//! One module a format; nothing here knows HTTP, a model's weights or a device.

pub(crate) mod choices;
pub(crate) mod cloudflare;
pub(crate) mod contract;
pub(crate) mod decisions;
mod decisions_input;
mod decisions_questions;
pub(crate) mod dialect;
pub(crate) mod failure;
mod fields;
pub(crate) mod gliclass;
pub(crate) mod json;
pub(crate) mod labels;
pub(crate) mod listing;
mod number;
pub(crate) mod parts;
pub(crate) mod path;
pub(crate) mod systemone;
pub(crate) mod tei;
pub(crate) mod tokenize;
pub(crate) mod vllm;
pub(crate) mod zero_shot;
