//! Rows of pictures: positions, merging, their place among the tokens.
//!
//! An operand may lie where the result lies (`layout::in_place`): then [`Builder::tensor`] gives one address for both, and
//! there is nothing to copy.

use dikast_core::Result;
use dikast_core::graph::Step;

use super::Builder;
use crate::launch::Launch;

impl Builder<'_> {
    pub(super) fn media_rows(&self, step: &Step) -> Result<Vec<Launch>> {
        Err(crate::support::lacking(step))
    }
}
