//! Request → token ids and positions.
//!
//! [`Tokenizer`] wraps `tokenizer.json`; [`gliclass`] renders and tokenizes a classification prompt and truncates it;
//! [`Sequence`] is what a graph consumes.

pub mod gliclass;
mod sequence;
mod tokenizer;

pub use sequence::{Sequence, Span};
pub use tokenizer::Tokenizer;
