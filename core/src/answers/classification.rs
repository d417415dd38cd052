//! The answer to a classification request.

use crate::request::Mode;

/// A label with its probability.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredLabel {
    /// The label as the model saw it (dotted for hierarchies).
    pub label: String,
    /// Probability in `0..=1`: sigmoid (multi-label) or softmax over the request's labels (single-label).
    pub score: f32,
    /// The logit behind it. `None` when the request was split into several windows of text.
    pub logit: Option<f32>,
}

/// Where an answer came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// Model name.
    pub model: String,
    /// SHA-256 of the weights, hex; filled when asked for.
    pub checkpoint_digest: Option<String>,
    /// Backend and device, for example `cpu`.
    pub backend: String,
    /// Weight format, for example `BF16` or `FP8 W8A8`.
    pub quantization: String,
    /// Tokens read, over all windows.
    pub tokens: u64,
    /// Text tokens dropped; 0 unless truncation was asked for.
    pub dropped_text_tokens: u64,
}

/// The answer to one [`crate::request::ClassifyRequest`].
#[derive(Debug, Clone, PartialEq)]
pub struct Classification {
    /// Every label with its score, in request order.
    pub scores: Vec<ScoredLabel>,
    /// The request's mode.
    pub mode: Mode,
    /// The request's threshold.
    pub threshold: f32,
    /// Where the answer came from.
    pub receipt: Receipt,
}
