//! First rows that several sequences share.

/// What a plan does about the first rows of its sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Prefix {
    /// Sequences are whole.
    #[default]
    None,
    /// Sequences are whole, and what later rows need of them is kept: [`super::Backend::keep`].
    Keep,
    /// Sequences go on after rows that were kept: [`super::Backend::run_after`].
    After {
        /// Most of those rows, of all sequences of a batch together.
        rows: usize,
    },
}
