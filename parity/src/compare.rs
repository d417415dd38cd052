//! Two recordings of one model against each other.

use dikast_core::graph::{Graph, TensorId};
use dikast_core::{Error, Result};

use crate::contract::{Rule, Tolerance, rules};
use crate::record::Recording;
use crate::report::{Logits, Report, StepReport};

/// Compares what two backends computed for the same sequences.
///
/// `model` is a name for the report. Steps of which a backend gave no values (it does them inside another one) are left
/// out.
///
/// # Errors
/// [`Error::Internal`] for recordings of different sequences.
pub fn compare(
    model: &str,
    graph: &Graph,
    first: &Recording,
    second: &Recording,
    tolerance: Tolerance,
) -> Result<Report> {
    let alike = first.logits.len() == second.logits.len()
        && first.logits.iter().zip(&second.logits).all(|(a, b)| a.len() == b.len());
    if !alike {
        return Err(Error::Internal("recordings of different sequences".to_owned()));
    }
    let rules = rules(graph);
    let mut steps = Vec::new();
    for (index, step) in graph.steps().iter().enumerate() {
        for id in step.outputs() {
            let Some(rule) = rules[id.index()] else { continue };
            let Some(apart) = apart(id, rule, first, second)? else { continue };
            let allowed = rule.allowed(&tolerance);
            steps.push(StepReport {
                index,
                step: step.name().to_owned(),
                tensor: graph.tensor(id).name.clone(),
                rule,
                worst: apart.worst,
                largest: apart.largest,
                elements: apart.elements,
                allowed,
                // NaN is never within a bound.
                ok: apart.worst <= allowed,
            });
        }
    }
    let mut logits = Apart::default();
    for (a, b) in first.logits.iter().zip(&second.logits) {
        logits.add(Rule::Real, a, b);
    }
    let logits = Logits {
        relative: logits.worst,
        largest: logits.largest,
        count: logits.elements,
        ok: logits.worst <= tolerance.real,
    };
    let first_off = steps.iter().position(|s| !s.ok);
    let invariant = [first.invariant, second.invariant];
    Ok(Report {
        model: model.to_owned(),
        first: first.device.clone(),
        second: second.device.clone(),
        sequences: first.logits.len(),
        tolerance,
        pass: first_off.is_none() && logits.ok && invariant == [true, true],
        first_out_of_contract: first_off,
        steps,
        logits,
        batch_invariant: invariant,
    })
}

/// How far two tensors are apart, the worst of all sequences.
#[derive(Debug, Clone, Copy, Default)]
struct Apart {
    /// By the rule.
    worst: f64,
    /// Largest difference of an element.
    largest: f64,
    elements: u64,
}

impl Apart {
    fn add(&mut self, rule: Rule, a: &[f32], b: &[f32]) {
        let (mut square, mut norm, mut unequal) = (0.0, 0.0, 0_u64);
        for (&a, &b) in a.iter().zip(b) {
            let (x, y) = (f64::from(a), f64::from(b));
            // The same bits, or both the same kind of nothing.
            if a.to_bits() == b.to_bits() {
                norm += y * y;
                continue;
            }
            let difference = (x - y).abs();
            unequal += u64::from(difference != 0.0 || rule == Rule::Exact);
            square += difference * difference;
            norm += y * y;
            self.largest = if difference.is_nan() { f64::NAN } else { self.largest.max(difference) };
        }
        let apart = match rule {
            Rule::Exact => unequal as f64,
            Rule::Codes => unequal as f64 / (a.len().max(1) as f64),
            Rule::Real if square == 0.0 => 0.0,
            // A tensor of zeros has no relative distance: then the absolute one counts.
            Rule::Real => square.sqrt() / if norm > 0.0 { norm.sqrt() } else { 1.0 },
        };
        self.worst = if apart.is_nan() { f64::NAN } else { self.worst.max(apart) };
        self.elements += a.len() as u64;
    }
}

fn apart(id: TensorId, rule: Rule, first: &Recording, second: &Recording) -> Result<Option<Apart>> {
    let mut sum = Apart::default();
    for (a, b) in first.tensors.iter().zip(&second.tensors) {
        let (Some(a), Some(b)) = (a.get(&id), b.get(&id)) else { return Ok(None) };
        if a.len() != b.len() {
            return Err(Error::Internal(format!("{} and {} values of one tensor", a.len(), b.len())));
        }
        sum.add(rule, a, b);
    }
    Ok(Some(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(rule: Rule, a: &[f32], b: &[f32]) -> f64 {
        let mut sum = Apart::default();
        sum.add(rule, a, b);
        sum.worst
    }

    #[test]
    fn each_rule_measures_its_own_distance() {
        assert_eq!(apart(Rule::Exact, &[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert_eq!(apart(Rule::Exact, &[0.0, 2.0], &[-0.0, 2.5]), 2.0, "signs of zeros count");
        assert_eq!(apart(Rule::Codes, &[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 5.0]), 0.25);
        assert_eq!(apart(Rule::Real, &[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(apart(Rule::Real, &[0.0, 5.0], &[3.0, 4.0]), 10.0_f64.sqrt() / 5.0);
        assert_eq!(apart(Rule::Real, &[1.0], &[0.0]), 1.0);
    }

    #[test]
    fn what_is_no_number_is_never_within_a_bound() {
        for rule in [Rule::Codes, Rule::Real] {
            let worst = apart(rule, &[1.0, f32::NAN], &[1.0, 2.0]);
            assert!(rule == Rule::Codes || worst.is_nan(), "{worst}");
            assert!(!(apart(Rule::Real, &[f32::INFINITY], &[1.0]) <= 1.0));
        }
        assert_eq!(apart(Rule::Real, &[f32::NAN], &[f32::NAN]), 0.0, "the same bits");
    }
}
