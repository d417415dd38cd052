//! Largest sizes accepted from a request, checked before anything is allocated for it.
//!
//! The limits keep hostile requests cheap; they are far above what a model handles well. The token limit of a
//! sequence is the engine's, see [`crate::engine::EngineOptions`].

/// Bytes of one text.
pub const MAX_TEXT_BYTES: usize = 4 << 20;
/// Labels of one request; a model may allow fewer.
pub const MAX_LABELS: usize = 4096;
/// Bytes of one label, its path in a hierarchy included.
pub const MAX_LABEL_BYTES: usize = 4096;
/// Levels of a label hierarchy.
pub const MAX_HIERARCHY_DEPTH: usize = 32;
/// Bytes of the separator of hierarchy levels.
pub const MAX_SEPARATOR_BYTES: usize = 16;
/// Bytes of the prompt.
pub const MAX_PROMPT_BYTES: usize = 64 << 10;
/// Solved examples of one request.
pub const MAX_EXAMPLES: usize = 64;
/// Bytes of one example's text.
pub const MAX_EXAMPLE_BYTES: usize = 64 << 10;
/// Labels of one example.
pub const MAX_EXAMPLE_LABELS: usize = 256;
/// Largest token limit that a request may ask for.
pub const MAX_TOKENS: usize = 1 << 17;
/// Forward passes (windows of text times groups of labels) of one request.
pub const MAX_SEQUENCES: usize = 4096;
/// Bytes of all rendered prompts of one request, over all its forward passes.
pub const MAX_RENDERED_BYTES: usize = 64 << 20;
