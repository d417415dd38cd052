//! Checkpoints: files → typed, checked weights.
//!
//! [`ModelFiles`] names the bytes (a mapped directory, compiled-in data, a browser's buffers), [`Weights`] is the
//! strict view of their tensors. Weights stay in their stored form; nobody here converts a whole table.

mod files;
mod weights;

pub use files::{Blob, ModelFiles};
pub use weights::{StoredType, TensorSpec, TensorView, Weights};
