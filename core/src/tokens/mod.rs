//! Request → token ids and positions.
//!
//! [`Tokenizer`] wraps `tokenizer.json`; [`gliclass`] and [`clef`] render and tokenize the prompts of their models and
//! truncate them; [`Sequence`] and [`clef::Record`] are what a graph consumes.

mod charsmap;
pub mod clef;
pub mod gliclass;
mod positions;
mod sequence;
mod tokenizer;
mod tokenizer_file;
mod vocabulary;

pub use sequence::{Sequence, Span};
pub use tokenizer::{Encoded, Tokenizer, TokenizerFacts};
pub use tokenizer_file::AddedToken;
