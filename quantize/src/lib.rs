//! From a checkpoint to a smaller one: reads tensor by tensor, quantizes the large matrices, writes the engine's own
//! layout with a few rows in memory. `write_weights` writes any tensors that a [`Source`] gives, so that synthetic
//! checkpoints take the same path as converted ones.
//!
//! ```text
//! Source ─► Plan (what is stored how, in which file) ─► write_weights ─► *.safetensors, index
//! release folder ─► convert ─► all of that, configurations, tokenizer, card, provenance.json, SHA256SUMS ─► verified
//! ```

mod calibrate;
mod card;
mod configuration;
mod convert;
mod copied;
mod encode;
mod family;
mod hash;
mod pattern;
mod plan;
mod progress;
mod report;
mod source;
mod write;

pub use calibrate::{Calibrated, Measured, Rescue, Sets, Steps, calibrate};
pub use convert::{Options, convert, is_output};
pub use family::expected_tensors;
pub use pattern::Pattern;
pub use plan::{Plan, SHARD_BYTES, Scheme};
pub use progress::finished_files;
pub use report::{MatrixError, Report};
pub use source::{Checkpoint, Coded, Dequantized, Rows, Source};
pub use write::{Written, WrittenFile, write_weights};
