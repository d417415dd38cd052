//! Requests, tokens and answers of GLiClass against the goldens of the reference package.

#![allow(clippy::unwrap_used)]

mod chunking;
mod distinct;
mod fixture;
mod goldens;
mod hostile;
mod markers;
mod positions;
mod tokenizer;
mod truncation;
