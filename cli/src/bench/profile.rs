//! Times of steps, by kind, beside the least time that their bytes and products need.

use dikast_core::backend::{Ceilings, StepTime};
use dikast_core::graph::{Cost, Sizes};
use dikast_core::models::gliclass::GliClass;

use super::report::StepGroup;
use super::timing::median;

/// Median times of the steps of one forward pass, and what each step costs.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    steps: Vec<Timed>,
}

#[derive(Debug, Clone)]
struct Timed {
    kind: &'static str,
    seconds: f64,
    cost: Cost,
}

impl Profile {
    /// The profile of several passes over batches of one size.
    pub(super) fn new(model: &GliClass, sizes: &Sizes, passes: &[Vec<StepTime>]) -> Self {
        let graph = model.graph();
        let steps = graph.steps().iter().enumerate().filter_map(|(index, step)| {
            let mut seconds: Vec<f64> = passes
                .iter()
                .flatten()
                .filter(|time| time.step == index)
                .map(|time| time.nanos as f64 * 1e-9)
                .collect();
            if seconds.is_empty() {
                return None;
            }
            seconds.sort_by(f64::total_cmp);
            let cost = cost(model, index, sizes);
            Some(Timed { kind: step.name(), seconds: median(&seconds), cost })
        });
        Self { steps: steps.collect() }
    }

    /// The groups, the longest first.
    pub(super) fn groups(&self, ceilings: Option<&Ceilings>) -> Vec<StepGroup> {
        let mut kinds: Vec<&'static str> = Vec::new();
        for step in &self.steps {
            if !kinds.contains(&step.kind) {
                kinds.push(step.kind);
            }
        }
        let all: f64 = self.steps.iter().map(|s| s.seconds).sum();
        let mut groups: Vec<StepGroup> =
            kinds.into_iter().map(|kind| self.group(kind, all, ceilings)).collect();
        groups.sort_by(|a, b| b.microseconds.total_cmp(&a.microseconds));
        groups
    }

    fn group(&self, kind: &'static str, all: f64, ceilings: Option<&Ceilings>) -> StepGroup {
        let steps = || self.steps.iter().filter(|s| s.kind == kind);
        let seconds: f64 = steps().map(|s| s.seconds).sum();
        let mut cost = Cost::default();
        steps().for_each(|s| cost += s.cost);
        let bound: Option<f64> = ceilings.map(|c| steps().map(|s| bound(s, c)).sum());
        let rate = |amount: u64| amount as f64 / seconds.max(1e-9) * 1e-9;
        StepGroup {
            kind: kind.to_owned(),
            calls: steps().count(),
            microseconds: seconds * 1e6,
            share: seconds / all.max(1e-9),
            gflop_per_second: rate(cost.flops),
            gb_per_second: rate(cost.bytes),
            bound_microseconds: bound.map(|b| b * 1e6),
            reached: bound.map(|b| b / seconds.max(1e-9)),
        }
    }
}

/// What a step of a model costs in a batch of these sizes.
pub(super) fn cost(model: &GliClass, step: usize, sizes: &Sizes) -> Cost {
    let stored = |name: &String| model.weights().find(name).map_or(0, |view| view.bytes.len() as u64);
    let graph = model.graph();
    graph
        .steps()
        .get(step)
        .map(|step| graph.cost(step, sizes, |weight| weight.parts.iter().map(stored).sum()))
        .unwrap_or_default()
}

/// The least seconds of a step.
fn bound(step: &Timed, ceilings: &Ceilings) -> f64 {
    let rate = match step.kind {
        "QuantLinear" | "QuantLinearGated" => ceilings.quantized_product_flops,
        _ => ceilings.product_flops,
    };
    (step.cost.flops as f64 / rate).max(step.cost.bytes as f64 / ceilings.copy_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_add_up_and_are_bound_by_the_slower_of_bytes_and_products() {
        let timed = |kind, seconds, flops, bytes| Timed { kind, seconds, cost: Cost { flops, bytes } };
        let profile = Profile {
            steps: vec![
                timed("Linear", 1.0, 4_000_000_000, 1_000_000_000),
                timed("RmsNorm", 6.0, 0, 3_000_000_000),
                timed("Linear", 1.0, 0, 2_000_000_000),
            ],
        };
        let ceilings = Ceilings { copy_bytes: 1e9, product_flops: 8e9, quantized_product_flops: 1.0 };
        let groups = profile.groups(Some(&ceilings));
        assert_eq!(groups.iter().map(|g| g.kind.as_str()).collect::<Vec<_>>(), ["RmsNorm", "Linear"]);
        assert_eq!((groups[0].share, groups[0].reached), (0.75, Some(0.5)));
        let linear = &groups[1];
        assert_eq!((linear.calls, linear.gflop_per_second, linear.gb_per_second), (2, 2.0, 1.5));
        assert_eq!((linear.bound_microseconds, linear.reached), (Some(3e6), Some(1.5)));
        assert!(profile.groups(None).iter().all(|g| g.reached.is_none()));
    }
}
