//! Rows of pictures: positions, merging, their place among the tokens.

use dikast_core::Result;
use dikast_core::graph::Step;

use super::Builder;
use crate::launch::Launch;

impl Builder<'_> {
    pub(super) fn media_rows(&self, step: &Step) -> Result<Launch> {
        Err(crate::support::lacking(step))
    }
}
