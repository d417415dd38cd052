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

/// Bytes of the JSON text of a decision request.
pub const MAX_JSON_BYTES: usize = 32 << 20;
/// Values, keys not counted, of one JSON text.
pub const MAX_JSON_VALUES: usize = 1 << 20;
/// Levels of nesting of one JSON text.
pub const MAX_JSON_DEPTH: usize = 128;
/// Digits of a whole number in JSON, as in Python.
pub const MAX_INTEGER_DIGITS: usize = 4300;
/// Questions of one decision request.
pub const MAX_QUESTIONS: usize = 64;
/// Options of a choice.
pub const MAX_OPTIONS: usize = 255;
/// Levels of a score.
pub const MAX_LEVELS: usize = 10;
/// Bytes of a question's id.
pub const MAX_QUESTION_ID_BYTES: usize = 1024;
/// Bytes of an option's id.
pub const MAX_OPTION_ID_BYTES: usize = 4096;
/// Bytes of the rendered state.
pub const MAX_STATE_BYTES: usize = MAX_TEXT_BYTES;
/// Bytes of all rendered questions and options.
pub const MAX_SCHEMA_BYTES: usize = 4 << 20;
/// Videos of one decision request.
pub const MAX_VIDEOS: usize = 4;
/// Frames of one video.
pub const MAX_VIDEO_FRAMES: usize = 768;
