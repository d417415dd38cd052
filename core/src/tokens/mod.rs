//! Request → token ids and positions.
//!
//! [`Tokenizer`] wraps `tokenizer.json`; [`gliclass`] renders and tokenizes a classification prompt and truncates it;
//! [`Sequence`] is what a graph consumes.

mod charsmap;
pub mod gliclass;
mod positions;
mod sequence;
mod tokenizer;
mod tokenizer_file;
mod vocabulary;

pub use sequence::{Sequence, Span};
pub use tokenizer::{Encoded, Tokenizer, TokenizerFacts};
pub use tokenizer_file::AddedToken;
