//! CLEF models: backbone, vision tower and head at their real sizes, in the layout of the releases.

mod hollow;
mod preset;
mod statistics;
mod tokenizer;
mod write;

pub(crate) use hollow::hollow;
pub(crate) use preset::preset;
pub(crate) use write::{is_clef, write};
