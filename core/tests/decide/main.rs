//! Requests, tokens and answers of CLEF against the goldens of the reference program.

#![allow(clippy::unwrap_used)]

mod answers;
mod fixture;
mod hostile;
mod layout;
mod media;
mod properties;
mod render;
mod special;
mod tokenizer;
mod truncation;
