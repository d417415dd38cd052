//! The report as one page without scripts or addresses.

use std::fmt::Write as _;

use html_escape::encode_double_quoted_attribute as escape;

use super::svg::{self, Series};
use super::text::with_interval;
use super::{Agreement, Difference, Evaluation, ModelFacts};

/// Flips listed.
const FLIPS: usize = 200;

const STYLE: &str = "
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; --a: #2a7f62; --b: #c07830; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1rem; }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #8884; }
td.n, th.n { text-align: right; }
svg { width: 100%; max-width: 46rem; height: auto; display: block; font-size: 12px; }
svg text { fill: currentColor; } .l { text-anchor: middle; } .r { text-anchor: end; } .i { fill: #fff; }
.g { stroke: #8886; stroke-width: 1; } polyline { fill: none; stroke-width: 2; }
rect.a, circle.a { fill: var(--a); } polyline.a { stroke: var(--a); }
rect.b, circle.b { fill: var(--b); } polyline.b { stroke: var(--b); }
small { color: #888; }
";

/// The page.
pub(super) fn page(e: &Evaluation) -> String {
    let mut out = String::new();
    let title = match &e.reference {
        Some(r) => format!("{} beside {}", e.candidate.name, r.name),
        None => e.candidate.name.clone(),
    };
    let title = escape(&title);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n"
    );
    if let Some(c) = &e.total.comparison {
        let _ = writeln!(
            out,
            "<p><strong>{}</strong> of {} decisions agree{}; logits differ by {} relatively, final hidden states by {}.</p>",
            c.agreement.agreeing,
            c.agreement.of,
            c.agreement.interval.map_or_else(String::new, |[a, b]| format!(
                " (95 % interval {:.1} to {:.1} %)",
                100.0 * a,
                100.0 * b
            )),
            mean(c.logit_l2),
            mean(c.hidden_l2)
        );
    }
    if let (Some(s), Some(r), Some(p)) = (&e.total.scores, &e.total.reference_scores, &e.total.paired) {
        let _ = writeln!(
            out,
            "<p>Accuracy {} against {} of the reference: difference {}, McNemar p {:.3}. Macro-F1 {} against {}: difference {}.</p>",
            with_interval(&s.accuracy, false),
            with_interval(&r.accuracy, false),
            with_interval(&p.accuracy, true),
            p.mcnemar_p,
            with_interval(&s.macro_f1, false),
            with_interval(&r.macro_f1, false),
            with_interval(&p.macro_f1, true)
        );
    }
    models(&mut out, e);
    sets(&mut out, e);
    drift(&mut out, e);
    margins(&mut out, e);
    calibration(&mut out, e);
    noise(&mut out, e);
    if !e.skipped.is_empty() {
        let _ = writeln!(out, "<h2>Left out</h2>\n<p>{} examples:</p><ul>", e.skipped.len());
        for s in e.skipped.iter().take(FLIPS) {
            let _ = writeln!(out, "<li>{}: {}</li>", escape(&s.id), escape(&s.reason));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</html>\n");
    out
}

fn models(out: &mut String, e: &Evaluation) {
    out.push_str("<h2>Models</h2>\n<table><tr><th></th><th>name</th><th>stored as</th><th class=\"n\">weights, bytes</th><th class=\"n\">device memory, bytes</th><th class=\"n\">median, ms</th><th>on</th></tr>\n");
    let sides = [("candidate", Some(&e.candidate)), ("reference", e.reference.as_ref())];
    for (side, facts) in sides.iter().filter_map(|(side, f)| f.map(|f| (side, f))) {
        let _ = writeln!(
            out,
            "<tr><th>{side}</th><td>{}{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{} {}</td></tr>",
            escape(&facts.name),
            facts
                .digest
                .as_ref()
                .map_or_else(String::new, |d| format!(" <small>{}</small>", escape(&d[..d.len().min(12)]))),
            escape(&facts.format),
            facts.weight_bytes,
            facts.device_bytes,
            ms(facts),
            escape(&facts.backend),
            escape(&facts.device)
        );
    }
    out.push_str("</table>\n");
    let Some(r) = &e.reference else { return };
    let bytes = |f: &ModelFacts| format!("{:.1} MB", f.device_bytes as f64 / 1e6);
    let stored = |f: &ModelFacts| format!("{:.1} MB", f.weight_bytes as f64 / 1e6);
    let c = &e.candidate;
    let mut rows = vec![
        ("weights", [c.weight_bytes as f64, r.weight_bytes as f64], [stored(c), stored(r)]),
        ("device memory", [c.device_bytes as f64, r.device_bytes as f64], [bytes(c), bytes(r)]),
    ];
    if let (Some(a), Some(b)) = (c.median_ms, r.median_ms) {
        rows.push(("median latency", [a, b], [format!("{a:.2} ms"), format!("{b:.2} ms")]));
    }
    out.push_str(&svg::bars("Memory and latency, candidate above reference", &rows));
}

fn ms(facts: &ModelFacts) -> String {
    facts.median_ms.map_or_else(|| "–".to_owned(), |m| format!("{m:.2}"))
}

fn sets(out: &mut String, e: &Evaluation) {
    out.push_str("<h2>Sets</h2>\n<table><tr><th>set</th><th class=\"n\">examples</th><th class=\"n\">questions</th><th class=\"n\">agreement</th><th class=\"n\">top-1</th><th class=\"n\">logit L2</th><th class=\"n\">hidden L2</th><th class=\"n\">accuracy</th><th class=\"n\">reference</th><th class=\"n\">macro-F1</th><th class=\"n\">ECE</th><th class=\"n\">Brier</th></tr>\n");
    for set in e.sets.iter().chain((e.sets.len() != 1).then_some(&e.total)) {
        let c = set.comparison.as_ref();
        let share =
            |a: Option<&Agreement>| a.map_or_else(String::new, |a| format!("{}/{}", a.agreeing, a.of));
        let score = |v: Option<f64>| v.map_or_else(String::new, |v| format!("{v:.3}"));
        let own = set.scores.as_ref();
        let cells = [
            share(c.map(|c| &c.agreement)),
            share(c.map(|c| &c.top1)),
            c.map_or_else(String::new, |c| mean(c.logit_l2)),
            c.map_or_else(String::new, |c| mean(c.hidden_l2)),
            score(own.map(|s| s.accuracy.value)),
            score(set.reference_scores.as_ref().map(|s| s.accuracy.value)),
            score(own.map(|s| s.macro_f1.value)),
            score(own.map(|s| s.calibration.ece)),
            score(own.map(|s| s.calibration.brier)),
        ];
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
            escape(&set.name),
            set.examples,
            set.questions
        );
        for cell in cells {
            let _ = write!(out, "<td class=\"n\">{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

fn mean(d: Option<Difference>) -> String {
    d.map_or_else(|| "–".to_owned(), |d| format!("{:.5}", d.mean))
}

fn drift(out: &mut String, e: &Evaluation) {
    if e.blocks.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<h2>Drift of the blocks</h2>\n<p>Mean relative distance of each block's output over {} examples. Local: on the \
         reference's input. Accumulated: in the whole forward pass. A damaged block stands out in the local drift.</p>",
        e.drift_examples
    );
    let series = [
        Series { name: "local", class: "a", values: e.blocks.iter().map(|b| b.local).collect() },
        Series {
            name: "accumulated",
            class: "b",
            values: e.blocks.iter().map(|b| Some(b.accumulated)).collect(),
        },
    ];
    out.push_str(&svg::lines("Drift of the blocks", "block", &series));
}

fn margins(out: &mut String, e: &Evaluation) {
    if e.margins.is_empty() {
        return;
    }
    out.push_str("<h2>Agreement by margin</h2>\n<p>How sure the reference was: the lead over its second option, or the distance from the threshold.</p>\n");
    out.push_str(&svg::margins("Agreement by margin", &e.margins));
    if e.flips.is_empty() {
        return;
    }
    out.push_str("<table><tr><th>example</th><th>set</th><th>question</th><th>reference</th><th>candidate</th><th class=\"n\">margin</th></tr>\n");
    for f in e.flips.iter().take(FLIPS) {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{:.3}</td></tr>",
            escape(&f.id),
            escape(&f.set),
            escape(&f.question),
            escape(&f.reference.join(", ")),
            escape(&f.candidate.join(", ")),
            f.margin
        );
    }
    out.push_str("</table>\n");
    if e.flips.len() > FLIPS {
        let _ = writeln!(out, "<p>And {} more in results.json.</p>", e.flips.len() - FLIPS);
    }
}

fn calibration(out: &mut String, e: &Evaluation) {
    let Some(own) = &e.total.scores else { return };
    out.push_str("<h2>Calibration</h2>\n");
    let mut sides = vec![("candidate", "a", own.calibration.bins.as_slice())];
    if let Some(reference) = &e.total.reference_scores {
        sides.push(("reference", "b", reference.calibration.bins.as_slice()));
    }
    out.push_str(&svg::reliability("Reliability", &sides));
}

fn noise(out: &mut String, e: &Evaluation) {
    let Some(noise) = &e.noise else { return };
    let _ = writeln!(
        out,
        "<h2>Noise floor</h2>\n<p>The reference against itself over {} examples.</p>\n<table><tr><th>way</th><th class=\"n\">agreement</th><th class=\"n\">logit L2</th><th class=\"n\">largest</th><th>the same bits</th></tr>",
        noise.examples
    );
    for run in &noise.runs {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}/{}</td><td class=\"n\">{:.2e}</td><td class=\"n\">{:.2e}</td><td>{}</td></tr>",
            escape(&run.way),
            run.agreeing,
            run.decisions,
            run.logit_l2,
            run.largest_logit_l2,
            if run.same_bits { "yes" } else { "no" }
        );
    }
    out.push_str("</table>\n");
}
