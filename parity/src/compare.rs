//! A recording against the definitions of its steps.

use dikast_core::checkpoint::Weights;
use dikast_core::cpu::replay;
use dikast_core::graph::Graph;
use dikast_core::{Error, Result};

use crate::contract::{Rule, Tolerance};
use crate::record::Recording;
use crate::report::{Logits, Report, StepReport};

/// Judges what a backend computed: every step against its definition on the backend's own operands, the logits against
/// those of `reference`, a recording of the same sequences (the CPU's).
///
/// Where a backend multiplies INT8 weights by rows that it has not rounded to codes, so do the definitions.
///
/// `model` is a name for the report. Steps of which a backend gave no values (it does them inside another one) are left
/// out.
///
/// # Errors
/// [`Error::Internal`] for recordings of different sequences, or of another graph.
pub fn judge(
    model: &str,
    (graph, weights): (&Graph, &Weights),
    recording: &Recording,
    reference: &Recording,
    tolerance: Tolerance,
) -> Result<Report> {
    let alike = recording.passes.len() == reference.passes.len()
        && recording.passes.iter().zip(&reference.passes).all(|(a, b)| a.batch == b.batch);
    if !alike {
        return Err(Error::Internal("recordings of different sequences".to_owned()));
    }
    let int8 = recording.int8(graph);
    let mut steps = Vec::new();
    for (index, step) in graph.steps().iter().enumerate() {
        let outputs = step.outputs();
        let mut apart = vec![Apart::default(); outputs.len()];
        let mut there = true;
        for pass in &recording.passes {
            let operand = |id| pass.tensors.get(&id).cloned();
            let wanted = replay(graph, weights, &pass.batch, index, int8, operand)?;
            let Some(wanted) = wanted else {
                there = false;
                break;
            };
            for ((id, want), apart) in outputs.iter().zip(wanted).zip(&mut apart) {
                let Some(found) = pass.tensors.get(id).filter(|f| f.len() == want.len()) else {
                    there = false;
                    break;
                };
                apart.add(Rule::of(graph, step, *id, int8), found, &want);
            }
        }
        if !there {
            continue;
        }
        for (id, apart) in outputs.into_iter().zip(apart) {
            let rule = Rule::of(graph, step, id, int8);
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
    for (found, want) in recording.passes.iter().zip(&reference.passes) {
        logits.add(Rule::Real, &found.logits, &want.logits);
    }
    let logits = Logits {
        relative: logits.worst,
        largest: logits.largest,
        count: logits.elements,
        ok: logits.worst <= tolerance.logits,
    };
    let first_off = steps.iter().position(|s| !s.ok);
    Ok(Report {
        model: model.to_owned(),
        reference: reference.device.clone(),
        device: recording.device.clone(),
        sequences: recording.passes.len(),
        tolerance,
        pass: first_off.is_none() && logits.ok && recording.invariant,
        first_out_of_contract: first_off,
        steps,
        logits,
        batch_invariant: recording.invariant,
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
    fn add(&mut self, rule: Rule, found: &[f32], want: &[f32]) {
        let (mut square, mut norm, mut unequal) = (0.0, 0.0, 0_u64);
        for (&a, &b) in found.iter().zip(want) {
            let (x, y) = (f64::from(a), f64::from(b));
            // The same bits may be NaN, which is then the same answer.
            if a.to_bits() == b.to_bits() {
                norm += if y.is_finite() { y * y } else { 0.0 };
                continue;
            }
            let difference = (x - y).abs();
            unequal += u64::from(difference != 0.0 || rule == Rule::Exact);
            square += difference * difference;
            norm += y * y;
            self.largest = larger(self.largest, difference);
        }
        let apart = match rule {
            Rule::Exact => unequal as f64,
            Rule::Codes => unequal as f64 / (found.len().max(1) as f64),
            Rule::Real if square == 0.0 => 0.0,
            // A tensor of zeros has no relative distance: then the absolute one counts.
            Rule::Real => square.sqrt() / if norm > 0.0 { norm.sqrt() } else { 1.0 },
        };
        self.worst = larger(self.worst, apart);
        self.elements += found.len() as u64;
    }
}

/// The larger of two distances; no number is the largest of all.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
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
        assert!(apart(Rule::Real, &[1.0, f32::NAN], &[1.0, 2.0]).is_nan());
        assert!(apart(Rule::Real, &[f32::INFINITY], &[1.0]) > 1e30);
        assert_eq!(apart(Rule::Codes, &[f32::NAN, 1.0], &[2.0, 1.0]), 0.5);
        assert_eq!(apart(Rule::Real, &[f32::NAN], &[f32::NAN]), 0.0, "the same bits");
        assert!(larger(1.0, f64::NAN).is_nan() && larger(f64::NAN, 1.0).is_nan());
    }
}
