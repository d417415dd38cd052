//! What a calibration is worth, and what the new folder says of it.

use dikast_core::models::clef::Clef;
use dikast_core::{Error, Result};
use dikast_eval::metrics::{RESAMPLES, bootstrap, mean};
use dikast_eval::{Comparison, Example, Interval, Limits, Outcome, evaluate, summarize};
use serde_json::json;

use super::{Sets, Steps, VERSION, engine, sets};
use crate::convert::Notes;

/// What was measured on the report set, against the unquantized model.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The same scheme without any step.
    pub naive: Comparison,
    /// With the steps.
    pub calibrated: Comparison,
    /// Mean relative logit L2 with the steps over that without, less one, paired by examples.
    pub logits: Interval,
    /// The same of the hidden states.
    pub hidden: Interval,
    /// Bytes of all tensors without any step, and with the steps.
    pub bytes: (u64, u64),
}

impl Measured {
    /// Both ways of quantizing against the unquantized model.
    pub(super) fn new(
        naive: Clef,
        calibrated: Clef,
        reference: &Clef,
        examples: &[Example],
        bytes: (u64, u64),
    ) -> Result<Self> {
        let (naive, before) = compared(naive, reference, examples)?;
        let (calibrated, after) = compared(calibrated, reference, examples)?;
        let change = |of: fn(&Outcome) -> Option<f64>| {
            let (before, after): (Vec<f64>, Vec<f64>) =
                before.iter().zip(&after).filter_map(|(b, a)| of(b).zip(of(a))).unzip();
            change(&before, &after)
        };
        Ok(Self { naive, calibrated, logits: change(|o| o.logit_l2), hidden: change(|o| o.hidden_l2), bytes })
    }

    /// As a table in Markdown.
    pub fn table(&self) -> String {
        let mut out = String::from("| | not calibrated | calibrated | change |\n| --- | --- | --- | --- |\n");
        let agreement = |c: &Comparison| format!("{}/{}", c.agreement.agreeing, c.agreement.of);
        let change = self.calibrated.agreement.agreeing as i64 - self.naive.agreement.agreeing as i64;
        out.push_str(&format!(
            "| decisions that agree | {} | {} | {change:+} |\n",
            agreement(&self.naive),
            agreement(&self.calibrated)
        ));
        let rows = [
            ("logit", self.naive.logit_l2, self.calibrated.logit_l2, self.logits),
            ("hidden", self.naive.hidden_l2, self.calibrated.hidden_l2, self.hidden),
        ];
        for (name, before, after, change) in rows {
            if let (Some(a), Some(b)) = (before, after) {
                let interval = change.interval.map_or_else(String::new, |[low, high]| {
                    format!(" ({:+.1} to {:+.1})", 100.0 * low, 100.0 * high)
                });
                out.push_str(&format!(
                    "| mean relative {name} L2 | {:.5} | {:.5} | {:+.1} %{interval} |\n",
                    a.mean,
                    b.mean,
                    100.0 * change.value
                ));
            }
        }
        let (before, after) = self.bytes;
        out.push_str(&format!(
            "| bytes of the tensors | {before} | {after} | {:+.1} % |\n",
            100.0 * (after as f64 / before.max(1) as f64 - 1.0)
        ));
        out
    }
}

/// The change of a mean of the same examples, with its interval.
fn change(before: &[f64], after: &[f64]) -> Interval {
    let of = |places: &[usize]| {
        let sum = |all: &[f64]| places.iter().map(|p| all[*p]).sum::<f64>();
        sum(after) / sum(before) - 1.0
    };
    let value = mean(after).zip(mean(before)).map_or(0.0, |(a, b)| a / b - 1.0);
    Interval { value, interval: bootstrap(before.len(), RESAMPLES, of) }
}

/// A model against the unquantized one, and what was found of each example.
fn compared(model: Clef, reference: &Clef, examples: &[Example]) -> Result<(Comparison, Vec<Outcome>)> {
    let (mut own, mut other) = (engine(model)?, engine(reference.clone())?);
    let limits = Limits { drift_examples: 0, timed_examples: 0, ..Limits::default() };
    let found = pollster::block_on(evaluate(&mut own, Some(&mut other), examples, limits, &mut |_, _| {}))?;
    if let Some(skipped) = found.skipped.first() {
        return Err(Error::invalid("report", format!("{}: {}", skipped.id, skipped.reason)));
    }
    let comparison = summarize(examples, &found, None).total.comparison;
    let comparison = comparison.ok_or_else(|| Error::Internal("nothing was compared".to_owned()))?;
    Ok((comparison, found.outcomes))
}

/// What the new folder says of its calibration.
pub(super) fn notes(
    steps: Steps,
    sets: Sets<'_>,
    tokens: usize,
    rescued: &[String],
    measured: Option<&Measured>,
) -> Notes {
    let set = |examples: &[Example]| json!({"examples": examples.len(), "digest": sets::digest(examples).to_string()});
    let mut provenance = json!({
        "steps": steps.to_string(),
        "version": VERSION,
        "tokens": tokens,
        "calibrate": set(sets.calibrate),
        "select": set(sets.select),
        "report": set(sets.report),
        "rescued": rescued,
    });
    let mut card = format!(
        "Calibrated with the steps `{steps}` on {} examples ({tokens} tokens).\n",
        sets.calibrate.len()
    );
    if !rescued.is_empty() {
        card.push_str(&format!(
            "Left as they were, chosen on {} others: {}.\n",
            sets.select.len(),
            rescued.join(", ")
        ));
    }
    if let Some(measured) = measured {
        provenance["measured"] = json!({
            "naive": measured.naive,
            "calibrated": measured.calibrated,
            "logit_l2_change": measured.logits,
            "hidden_l2_change": measured.hidden,
            "tensor_bytes": {"naive": measured.bytes.0, "calibrated": measured.bytes.1},
        });
        card.push_str(&format!(
            "\nMeasured on {} held-out examples against the unquantized model, the same scheme without calibration beside it\n\
             (changes with their 95 % bootstrap intervals, paired by examples):\n\n{}",
            sets.report.len(),
            measured.table()
        ));
    }
    Notes { provenance, card }
}
