//! Tables for a terminal.

use std::fmt::Write as _;

use super::{Agreement, Difference, Evaluation, Interval, ModelFacts, SetReport};

/// Blocks shown before the rest is left to the page.
const BLOCKS: usize = 64;
/// Flips shown.
const FLIPS: usize = 10;

/// Models, sets, drift, flips, noise.
pub(super) fn tables(e: &Evaluation) -> String {
    let mut out = String::new();
    models(&mut out, e);
    sets(&mut out, e);
    if !e.blocks.is_empty() {
        let _ = writeln!(out, "\n{:<12} {:>10} {:>12}", "block", "local", "accumulated");
        for block in e.blocks.iter().take(BLOCKS) {
            let local = block.local.map_or_else(|| "-".to_owned(), |l| format!("{l:.5}"));
            let _ = writeln!(out, "{:<12} {local:>10} {:>12.5}", block.block, block.accumulated);
        }
        let _ = writeln!(out, "mean relative distance over {} examples", e.drift_examples);
    }
    if e.reference.is_some() {
        let _ = writeln!(out, "\n{} decisions differ from the reference's", e.flips.len());
        for f in e.flips.iter().take(FLIPS) {
            let chosen = |c: &[String]| if c.is_empty() { "none".to_owned() } else { c.join(", ") };
            let _ = writeln!(
                out,
                "  {} {}: {} became {} (margin {:.3})",
                f.id,
                f.question,
                chosen(&f.reference),
                chosen(&f.candidate),
                f.margin
            );
        }
    }
    if let Some(noise) = &e.noise {
        let _ = writeln!(out, "\nthe reference against itself, {} examples", noise.examples);
        for run in &noise.runs {
            let bits = if run.same_bits { ", the same bits" } else { "" };
            let _ = writeln!(
                out,
                "  {:<32} {}/{} decisions, logits {:.2e}, largest {:.2e}{bits}",
                run.way, run.agreeing, run.decisions, run.logit_l2, run.largest_logit_l2
            );
        }
    }
    if !e.skipped.is_empty() {
        let _ = writeln!(
            out,
            "\n{} examples left out, the first: {}: {}",
            e.skipped.len(),
            e.skipped[0].id,
            e.skipped[0].reason
        );
    }
    out
}

/// A number of a model, where it has one.
type Figure<'a> = &'a dyn Fn(&ModelFacts) -> Option<f64>;

fn models(out: &mut String, e: &Evaluation) {
    let mut columns: Vec<(&str, &ModelFacts)> = vec![("candidate", &e.candidate)];
    columns.extend(e.reference.as_ref().map(|r| ("reference", r)));
    let mut row = |name: &str, f: &dyn Fn(&ModelFacts) -> String, ratio: Option<Figure<'_>>| {
        let _ = write!(out, "{name:<22}");
        for (_, facts) in &columns {
            let _ = write!(out, " {:>20}", f(facts));
        }
        if let (Some(ratio), Some(reference)) = (ratio, &e.reference)
            && let (Some(a), Some(b)) = (ratio(&e.candidate), ratio(reference))
            && b > 0.0
        {
            let _ = write!(out, " {:>7.1} %", 100.0 * a / b);
        }
        out.push('\n');
    };
    row("", &|f| short(&f.name), None);
    row("stored as", &|f| f.format.clone(), None);
    row("weights, bytes", &|f| f.weight_bytes.to_string(), Some(&|f| Some(f.weight_bytes as f64)));
    row("device memory, bytes", &|f| f.device_bytes.to_string(), Some(&|f| Some(f.device_bytes as f64)));
    row(
        "median, ms",
        &|f| f.median_ms.map_or_else(|| "-".to_owned(), |m| format!("{m:.2}")),
        Some(&|f| f.median_ms),
    );
    row("on", &|f| f.backend.clone(), None);
}

/// The last characters of a long name.
fn short(name: &str) -> String {
    let count = name.chars().count();
    if count <= 20 {
        name.to_owned()
    } else {
        format!("…{}", name.chars().skip(count - 19).collect::<String>())
    }
}

fn sets(out: &mut String, e: &Evaluation) {
    let one = e.sets.len() == 1;
    let sets: Vec<&SetReport> = e.sets.iter().chain((!one).then_some(&e.total)).collect();
    let width = sets.iter().map(|s| s.name.chars().count()).max().unwrap_or(0).max(4);
    let _ = write!(out, "\n{:<width$} {:>8} {:>9}", "set", "examples", "questions");
    if e.reference.is_some() {
        let _ = write!(out, " {:>11} {:>11} {:>10} {:>10}", "agreement", "top-1", "logit L2", "hidden L2");
    }
    if e.total.scores.is_some() {
        let _ = write!(out, " {:>8} {:>8} {:>6} {:>6}", "accuracy", "macro-F1", "ECE", "Brier");
    }
    out.push('\n');
    for set in &sets {
        let _ = write!(out, "{:<width$} {:>8} {:>9}", set.name, set.examples, set.questions);
        if let Some(c) = &set.comparison {
            let _ = write!(
                out,
                " {:>11} {:>11} {:>10} {:>10}",
                share(&c.agreement),
                share(&c.top1),
                distance(c.logit_l2),
                distance(c.hidden_l2)
            );
        }
        if let Some(s) = &set.scores {
            let _ = write!(
                out,
                " {:>8.3} {:>8.3} {:>6.3} {:>6.3}",
                s.accuracy.value, s.macro_f1.value, s.calibration.ece, s.calibration.brier
            );
        }
        out.push('\n');
    }
    let total = &e.total;
    if let Some(interval) = total.comparison.as_ref().and_then(|c| c.agreement.interval) {
        let _ = writeln!(out, "agreement: 95 % interval {:.3} to {:.3}", interval[0], interval[1]);
    }
    if let (Some(s), Some(r), Some(p)) = (&total.scores, &total.reference_scores, &total.paired) {
        for (name, own, other, pair) in [
            ("accuracy", &s.accuracy, &r.accuracy, &p.accuracy),
            ("macro-F1", &s.macro_f1, &r.macro_f1, &p.macro_f1),
        ] {
            let _ = writeln!(
                out,
                "{name}: {} against {} of the reference, difference {}",
                with_interval(own, false),
                with_interval(other, false),
                with_interval(pair, true)
            );
        }
        let _ = writeln!(
            out,
            "right in one only: {} the candidate, {} the reference (McNemar p {:.3})",
            p.only_candidate, p.only_reference, p.mcnemar_p
        );
    } else if let Some(s) = &total.scores {
        let _ = writeln!(
            out,
            "accuracy {}, macro-F1 {}",
            with_interval(&s.accuracy, false),
            with_interval(&s.macro_f1, false)
        );
    }
}

fn share(a: &Agreement) -> String {
    format!("{}/{}", a.agreeing, a.of)
}

fn distance(d: Option<Difference>) -> String {
    d.map_or_else(|| "-".to_owned(), |d| format!("{:.5}", d.mean))
}

/// `0.827 (0.734 to 0.907)`, with a sign for differences.
pub(super) fn with_interval(i: &Interval, signed: bool) -> String {
    let number = |v: f64| if signed { format!("{v:+.3}") } else { format!("{v:.3}") };
    match i.interval {
        Some([low, high]) => format!("{} ({} to {})", number(i.value), number(low), number(high)),
        None => number(i.value),
    }
}
