//! `tokenizer.json` through the `tokenizers` crate.

/// A tokenizer that never truncates or pads by itself.
#[derive(Debug, Clone)]
pub struct Tokenizer {}
