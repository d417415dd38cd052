//! The answer to a decision request.

use crate::request::Json;

/// The answer to one [`crate::request::DecideRequest`].
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The id of each question with its answer, in request order.
    pub answers: Vec<(String, Answer)>,
    /// Tokens of the state, if the request allowed to cut it.
    pub truncation: Option<StateTokens>,
    /// Where the answers came from.
    pub receipt: DecideReceipt,
}

/// The answer to one question. Nothing is rounded.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To a noul question.
    Noul {
        /// Probability of `true`.
        probability: f64,
    },
    /// To a choice.
    Choice {
        /// Index of the most likely option, the first in request order of equals.
        choice: usize,
        /// See [`crate::request::Confidence`].
        confidence: f64,
        /// Ids and probabilities in request order.
        probabilities: Vec<(String, f64)>,
    },
    /// To a score.
    Score {
        /// Mean level: the sum of `index · probability`.
        score: f64,
        /// See [`crate::request::Confidence`].
        confidence: f64,
        /// The levels as the request described them.
        legend: Vec<Json>,
        /// Probability of each level.
        probabilities: Vec<f64>,
    },
}

/// Tokens of a state that may have been cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateTokens {
    /// Tokens found.
    pub found: u64,
    /// Tokens read.
    pub used: u64,
}

/// Where a decision came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecideReceipt {
    /// Model name.
    pub model: String,
    /// SHA-256 of the weights, hex; filled when asked for.
    pub checkpoint_digest: Option<String>,
    /// Backend, for example `cpu`.
    pub backend: String,
    /// Device name, if the backend has one.
    pub device: Option<String>,
    /// Weight format, for example `BF16` or `INT8 ConvRot`.
    pub quantization: String,
    /// Tokens read, media included.
    pub tokens: u64,
    /// Tokens of the state that were dropped; 0 unless truncation was asked for.
    pub dropped_state_tokens: u64,
}
