//! What is known of a request before its body.

use std::time::Instant;

use crate::wire::dialect::Dialect;

/// What is known of a request before its body.
#[derive(Debug, Clone)]
pub(super) struct Context {
    /// Its id, the caller's or a new one.
    pub(super) id: String,
    /// The family of clients of its path.
    pub(super) dialect: Dialect,
    /// When its head was read.
    pub(super) arrived: Instant,
}

/// What a response says to counters and the log.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// The served model.
    pub(super) model: Option<String>,
    /// Tokens read.
    pub(super) tokens: u64,
    /// Questions, or texts.
    pub(super) questions: u64,
    /// Why it was refused.
    pub(super) code: Option<&'static str>,
    /// A fault of the server.
    pub(super) fault: Option<String>,
}
