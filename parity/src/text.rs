//! The report as a table for a terminal.

use std::fmt::Write as _;

use crate::report::{Report, StepReport};

impl Report {
    /// A summary by kind of step, the steps out of contract (the first twenty), and the verdict; with `all`, every step.
    pub fn to_text(&self, all: bool) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{} ({})", self.title(), self.device.device);
        if all {
            rows(&mut out, self.steps.iter());
        } else {
            self.kinds(&mut out);
            let off = self.off().count();
            if off > 0 {
                let _ =
                    writeln!(out, "\n{off} of {} outputs out of contract, the first ones:", self.steps.len());
                rows(&mut out, self.off().take(20));
            }
        }
        let l = &self.logits;
        let _ = writeln!(
            out,
            "\nlogits against {}: {} of {} sequences, relative {:.1e}, largest {:.1e}",
            self.reference.backend, l.count, self.sequences, l.relative, l.largest
        );
        if !self.batch_invariant {
            let _ = writeln!(out, "a sequence has other bits in a batch than alone");
        }
        let _ = match (self.pass, self.first_off()) {
            (true, _) => writeln!(out, "pass: every step is within its contract"),
            (false, Some(s)) => {
                writeln!(out, "FAIL: the first step out of contract is {} {} ({})", s.index, s.step, s.tensor)
            }
            (false, None) => writeln!(out, "FAIL: every step is within its contract, but not the whole"),
        };
        out
    }

    /// One line for each kind of step: outputs, and the worst of each rule.
    fn kinds(&self, out: &mut String) {
        let mut kinds: Vec<(&str, &str, usize, f64, f64, usize)> = Vec::new();
        for s in &self.steps {
            let at = kinds.iter().position(|k| (k.0, k.1) == (s.step.as_str(), s.rule.name()));
            let at = at.unwrap_or_else(|| {
                kinds.push((&s.step, s.rule.name(), 0, 0.0, s.allowed, 0));
                kinds.len() - 1
            });
            let kind = &mut kinds[at];
            kind.2 += 1;
            kind.3 = if s.worst.is_nan() || kind.3.is_nan() { f64::NAN } else { kind.3.max(s.worst) };
            kind.5 += usize::from(!s.ok);
        }
        let _ =
            writeln!(out, "  {:<22} {:<6} {:>7} {:>9} {:>9}", "step", "rule", "outputs", "worst", "allowed");
        for (step, rule, count, worst, allowed, off) in kinds {
            let mark = if off == 0 { ' ' } else { '!' };
            let _ = writeln!(out, "{mark} {step:<22} {rule:<6} {count:>7} {worst:>9.1e} {allowed:>9.1e}");
        }
    }
}

fn rows<'a>(out: &mut String, steps: impl Iterator<Item = &'a StepReport>) {
    let _ = writeln!(
        out,
        "  {:>5} {:<22} {:<32} {:<6} {:>9} {:>9} {:>9}",
        "index", "step", "tensor", "rule", "worst", "largest", "allowed"
    );
    for s in steps {
        let mark = if s.ok { ' ' } else { '!' };
        let _ = writeln!(
            out,
            "{mark} {:>5} {:<22} {:<32} {:<6} {:>9.1e} {:>9.1e} {:>9.1e}",
            s.index,
            s.step,
            s.tensor,
            s.rule.name(),
            s.worst,
            s.largest,
            s.allowed
        );
    }
}
