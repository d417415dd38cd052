//! Numbers of a step.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What the clients of a step saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Milliseconds from when each request was due to its answer.
    answered: Vec<f64>,
    /// The same for refusals.
    refused: Vec<f64>,
    statuses: BTreeMap<u16, usize>,
    /// Refusals that do not say when to come again.
    no_advice: usize,
    /// Requests without any answer, by what happened.
    broken: BTreeMap<String, usize>,
    left: usize,
}

impl Seen {
    pub(crate) fn status(&mut self, status: u16, retry_after: bool, milliseconds: f64) {
        *self.statuses.entry(status).or_default() += 1;
        match status {
            200 => self.answered.push(milliseconds),
            _ => {
                self.refused.push(milliseconds);
                self.no_advice += usize::from(!retry_after);
            }
        }
    }

    pub(crate) fn broken(&mut self, why: &str) {
        *self.broken.entry(why.to_owned()).or_default() += 1;
    }

    pub(crate) fn left(&mut self) {
        self.left += 1;
    }

    /// Requests answered.
    pub(crate) fn answered(&self) -> usize {
        self.answered.len()
    }

    pub(crate) fn json(&mut self, sent: usize, seconds: f64) -> Value {
        let statuses: BTreeMap<String, usize> =
            self.statuses.iter().map(|(s, n)| (s.to_string(), *n)).collect();
        json!({
            "sent": sent,
            "goodput": round(self.answered() as f64 / seconds),
            "statuses": statuses,
            "broken": self.broken,
            "left": self.left,
            "refusals_without_retry_after": self.no_advice,
            "answered_ms": quantiles(&mut self.answered),
            "refused_ms": quantiles(&mut self.refused),
        })
    }
}

/// Quantiles of some values; null without any.
pub(crate) fn quantiles(values: &mut [f64]) -> Value {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.last() else { return Value::Null };
    let at = |q: f64| round(values[((values.len() - 1) as f64 * q).round() as usize]);
    json!({"n": values.len(), "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": round(*last)})
}

/// Three digits behind the point.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Resident memory of a process in MiB.
pub(crate) fn resident(pid: Option<u32>) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid?)).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(round(line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok()? / 1024.0))
}
