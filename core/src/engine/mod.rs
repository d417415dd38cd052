//! Load once, pack many requests into one batch, split the results.

/// Limits and sizes of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// Token limit of one sequence unless a request says less; the reference pipeline's default is 1024.
    pub max_tokens: usize,
    /// Most packed tokens of one forward pass; a longer sequence runs alone.
    pub batch_tokens: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { max_tokens: 1024, batch_tokens: 4096 }
    }
}
