//! Dikast's core: everything that is the same on every device.
//!
//! ```text
//! request ──► tokens ──► batch ──► graph ──► plan ──► logits ──► answers
//! ```
//!
//! [`request`] says what a caller may ask, [`tokens`] turns it into token ids and positions, [`models`] and
//! [`heads`] build the forward pass as a linear [`graph`] of fused steps over the weights of a [`checkpoint`],
//! a [`backend`] executes the graph ([`cpu`] is the reference), and [`answers`] turns logits into answers.
//! [`engine`] joins them. The crate has no network and no GPU, and builds for `wasm32-unknown-unknown` with
//! `--no-default-features --features web`.

pub mod answers;
pub mod backend;
pub mod checkpoint;
pub mod cpu;
pub mod engine;
mod error;
pub mod graph;
pub mod heads;
pub mod media;
pub mod models;
pub mod numerics;
pub mod request;
pub mod tokens;

pub use error::{Error, Result};
