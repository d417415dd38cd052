//! Row functions, on their own and before the INT8 quantizer.

use dikast_core::Result;
use dikast_core::graph::Step;

use super::Builder;
use crate::launch::Launch;

impl Builder<'_> {
    pub(super) fn row_function(&self, step: &Step) -> Result<Launch> {
        Err(crate::support::lacking(step))
    }
}
