//! The zero-shot classification request.

use super::LabelSet;

/// Whether the labels compete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Each label is judged on its own (sigmoid); the reference pipeline's default.
    #[default]
    MultiLabel,
    /// Exactly one label is right (softmax over the request's labels).
    SingleLabel,
}

/// What to do with input over the token limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Truncation {
    /// Refuse with [`crate::Error::TooLarge`], naming the limit and the count.
    #[default]
    Refuse,
    /// Drop the last tokens of the text, never a label, the prompt or an example; the count is reported.
    Text,
    /// The reference's behaviour: cut the whole rendered prompt on the right, labels and all.
    Right,
}

/// How to treat labels that the reference silently answers wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strictness {
    /// Accept the same label twice, and labels that the tokenizer makes the same; each occurrence is scored on its
    /// own.
    pub allow_duplicate_labels: bool,
    /// Accept marker text (`<<LABEL>>`, `<<SEP>>`, …) where it shifts or ends the label list.
    pub allow_markers: bool,
    /// Accept labels that say nothing: empty, blank, or without any token.
    pub allow_empty_labels: bool,
}

/// Splitting of long texts, as the reference's chunking pipeline does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    /// Window length in Unicode code points.
    pub text_chars: usize,
    /// Overlap of neighbouring windows in Unicode code points; less than `text_chars`.
    pub overlap_chars: usize,
    /// Labels of one forward pass; labels of different groups do not see each other.
    pub labels: usize,
}

impl Default for Chunking {
    fn default() -> Self {
        Self { text_chars: 8192, overlap_chars: 256, labels: 8 }
    }
}

/// A solved example shown to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The example's text.
    pub text: String,
    /// Its labels; text only, they add no class.
    pub labels: Vec<String>,
}

/// One text and the labels to judge it by.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifyRequest {
    /// The text; may be empty.
    pub text: String,
    /// The labels, flat or as a hierarchy.
    pub labels: LabelSet,
    /// Whether the labels compete.
    pub mode: Mode,
    /// Multi-label only: labels with `score >= threshold` are chosen. In `0..=1`.
    pub threshold: f32,
    /// A task description, glued before the text.
    pub prompt: Option<String>,
    /// Solved examples.
    pub examples: Vec<Example>,
    /// What to do with input over the token limit.
    pub truncation: Truncation,
    /// Token limit of the whole rendered prompt, end token included. `None`: the engine's.
    pub max_tokens: Option<usize>,
    /// Split long texts and long label lists.
    pub chunking: Option<Chunking>,
    /// Exceptions from the strict defaults.
    pub strictness: Strictness,
}

impl ClassifyRequest {
    /// A request with the defaults of the reference pipeline: multi-label, threshold 0.5.
    pub fn new(text: impl Into<String>, labels: LabelSet) -> Self {
        Self {
            text: text.into(),
            labels,
            mode: Mode::default(),
            threshold: 0.5,
            prompt: None,
            examples: Vec::new(),
            truncation: Truncation::default(),
            max_tokens: None,
            chunking: None,
            strictness: Strictness::default(),
        }
    }
}
