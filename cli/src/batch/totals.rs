//! What a whole run amounts to.

/// What a whole output holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
    /// Rows, resumed ones included.
    pub(super) rows: u64,
    /// Rows with an error record, resumed ones included.
    pub(super) failed: u64,
}
