//! The gated delta rule.

use dikast_core::Result;
use dikast_core::graph::{Graph, Sizes, Step};

use super::Builder;
use crate::launch::Launch;

impl Builder<'_> {
    pub(super) fn gated_delta(&self, step: &Step) -> Result<Vec<Launch>> {
        Err(crate::support::lacking(step))
    }
}

/// Bytes that the step needs while it runs.
pub(super) fn scratch_bytes(_graph: &Graph, _step: &Step, _bucket: &Sizes) -> usize {
    0
}
