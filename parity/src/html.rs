//! The report as one page without scripts or addresses.

use std::fmt::Write as _;

use html_escape::encode_double_quoted_attribute as escape;

use crate::report::Report;

const STYLE: &str = "
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #8884; }
td.n, th.n { text-align: right; }
.bar { display: inline-block; height: .7em; background: #3a7; min-width: 1px; }
tr.off { background: #e4433322; } tr.off .bar { background: #d33; }
.pass { color: #274; } .fail { color: #b22; }
@media (prefers-color-scheme: dark) { .pass { color: #6c9; } .fail { color: #f77; } }
";

impl Report {
    /// One self-contained page: verdict, device, and every step with its distance on a logarithmic bar.
    pub fn to_html(&self) -> String {
        let mut out = String::new();
        let title = self.title();
        let title = escape(&title);
        let verdict = match (self.pass, self.first_off()) {
            (true, _) => "<p class=\"pass\"><strong>Pass</strong>: every step is within its contract.</p>".to_owned(),
            (false, Some(s)) => format!(
                "<p class=\"fail\"><strong>Fail</strong>: the first step out of contract is {} {} \
                 (<code>{}</code>).</p>",
                s.index,
                escape(&s.step),
                escape(&s.tensor)
            ),
            (false, None) => "<p class=\"fail\"><strong>Fail</strong>: the steps are within their contracts, the whole is not.</p>"
                .to_owned(),
        };
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n<h1>{title}</h1>\n{verdict}\n"
        );
        let _ = writeln!(
            out,
            "<p>{} sequences, {} outputs of steps, each compared with its definition on the same operands; logits differ by {:.1e} relatively, {:.1e} at most. The same bits \
             alone and in a batch: {}.</p>",
            self.sequences,
            self.steps.len(),
            self.logits.relative,
            self.logits.largest,
            if self.batch_invariant { "yes" } else { "no" }
        );
        out.push_str("<ul>\n");
        for device in [&self.device, &self.reference] {
            let details: Vec<String> = device.details.iter().map(|(k, v)| format!("{k} {v}")).collect();
            let _ = writeln!(
                out,
                "<li><strong>{}</strong> {} <small>{}</small></li>",
                escape(&device.backend),
                escape(&device.device),
                escape(&details.join(", "))
            );
        }
        out.push_str(
            "</ul>\n<table>\n<tr><th class=\"n\">#</th><th>step</th><th>tensor</th><th>rule</th>\
             <th class=\"n\">worst</th><th class=\"n\">allowed</th><th>of the allowed</th></tr>\n",
        );
        for s in &self.steps {
            let _ = writeln!(
                out,
                "<tr{}><td class=\"n\">{}</td><td>{}</td><td><code>{}</code></td><td>{}</td>\
                 <td class=\"n\">{:.1e}</td><td class=\"n\">{:.1e}</td>\
                 <td><span class=\"bar\" style=\"width:{}%\"></span></td></tr>",
                if s.ok { "" } else { " class=\"off\"" },
                s.index,
                escape(&s.step),
                escape(&s.tensor),
                s.rule.name(),
                s.worst,
                s.allowed,
                bar(s.worst, s.allowed)
            );
        }
        out.push_str("</table>\n</html>\n");
        out
    }
}

/// Width of a bar in percent: eight powers of ten below what is allowed to one above it.
fn bar(worst: f64, allowed: f64) -> u32 {
    if worst == 0.0 {
        return 0;
    }
    if allowed == 0.0 || !worst.is_finite() {
        return 100;
    }
    (((worst / allowed).log10() + 8.0) / 9.0 * 100.0).clamp(1.0, 100.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_markup() {
        assert_eq!(escape("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
    }

    #[test]
    fn bars_are_logarithmic() {
        assert_eq!(bar(0.0, 1.0), 0);
        assert_eq!(bar(1e-8, 1.0), 1);
        assert_eq!(bar(1.0, 1.0), 88);
        assert_eq!(bar(1e9, 1.0), 100);
        assert_eq!(bar(f64::NAN, 1.0), 100);
        assert_eq!(bar(1.0, 0.0), 100);
    }
}
