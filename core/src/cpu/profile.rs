//! The time of each step of a run.

use std::time::Instant;

use super::{CpuPlan, CpuResident, forward};
use crate::Result;
use crate::backend::{Batch, StepTime, Taps};

/// Runs a batch and reads the clock after each step.
pub(super) fn profile(plan: &CpuPlan, resident: &CpuResident, batch: &Batch) -> Result<Vec<StepTime>> {
    let mut times = Vec::with_capacity(plan.graph.steps().len());
    let mut last = Instant::now();
    forward(plan, resident, batch, &mut Taps::none(), &mut |step| {
        let now = Instant::now();
        let nanos = u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX);
        times.push(StepTime { step, nanos });
        last = now;
    })?;
    Ok(times)
}
