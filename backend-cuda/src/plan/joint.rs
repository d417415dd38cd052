//! The joint schema head.

use dikast_core::Result;
use dikast_core::graph::Step;

use super::Builder;
use crate::launch::Launch;

impl Builder<'_> {
    pub(super) fn joint(&self, step: &Step) -> Result<Launch> {
        Err(crate::support::lacking(step))
    }
}
