//! The answer as people see it: a label, a bar, a percentage and a mark a line.

use std::io::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style as Ansi};

use super::{Answer, AnswerLabel};
use crate::terminal::bars::{self, Columns};
use crate::terminal::{cells, counted, visible};

/// How to draw.
#[derive(Debug, Clone)]
pub(super) struct Style {
    /// Width of the terminal; `None`: labels are never cut.
    pub(super) width: Option<usize>,
    /// Show logits.
    pub(super) logits: bool,
}

impl Style {
    /// Widths of the columns, for the widest label.
    pub(super) fn columns(&self, widest: usize) -> Columns {
        Columns::fit(self.width, widest, if self.logits { 10 } else { 0 })
    }
}

/// Draws the labels of an answer.
pub(super) fn render(answer: &Answer, style: &Style, out: &mut impl Write) -> io::Result<()> {
    let shown: Vec<(String, &AnswerLabel)> =
        answer.labels.iter().map(|l| (shown_label(answer, l), l)).collect();
    let widest = shown.iter().map(|(label, _)| cells(label)).max().unwrap_or(0);
    let columns = style.columns(widest);
    let dim = Ansi::new().dimmed();
    for (label, scored) in &shown {
        bars::line(out, columns, label, f64::from(scored.score), scored.chosen)?;
        if style.logits {
            match scored.logit {
                Some(logit) => write!(out, " {logit:>9.4}")?,
                None => write!(out, " {:>9}", "-")?,
            }
        }
        writeln!(out)?;
    }
    if answer.labels.iter().all(|l| !l.chosen) {
        writeln!(out, "{dim}no label reaches the threshold{dim:#}")?;
    }
    Ok(())
}

/// The label; the mark of a cut one stands first, where no narrow terminal hides it.
fn shown_label(answer: &Answer, scored: &AnswerLabel) -> String {
    let label = visible(&scored.label);
    if answer.cut_labels.contains(&scored.label) { format!("(cut) {label}") } else { label.into_owned() }
}

/// The last line: model, backend, size and time.
pub(super) fn footer(answer: &Answer, elapsed: Duration, out: &mut impl Write) -> io::Result<()> {
    let dim = Ansi::new().dimmed();
    let (model, backend) = (visible(&answer.model), visible(&answer.backend));
    let millis = elapsed.as_secs_f64() * 1e3;
    writeln!(out, "{dim}{model} · {backend} · {} · {millis:.0} ms{dim:#}", counted(answer.tokens, "token"))?;
    if answer.dropped_text_tokens > 0 {
        let warn = AnsiColor::Yellow.on_default();
        writeln!(
            out,
            "{warn}not read: {} at the end of the text{warn:#}",
            counted(answer.dropped_text_tokens, "token")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(labels: &[(&str, f32, bool)]) -> Answer {
        let label = |(label, score, chosen): &(&str, f32, bool)| AnswerLabel {
            label: (*label).to_owned(),
            score: *score,
            logit: Some(1.5),
            chosen: *chosen,
        };
        Answer {
            model: "m".into(),
            backend: "cpu".into(),
            mode: "single-label",
            labels: labels.iter().map(label).collect(),
            tree: None,
            tokens: 3,
            dropped_text_tokens: 0,
            cut_labels: Vec::new(),
        }
    }

    fn plain(answer: &Answer, style: &Style) -> String {
        let mut out = Vec::new();
        render(answer, style, &mut out).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    #[test]
    fn lines_fit_the_terminal() {
        let long = "x".repeat(300);
        let answer = answer(&[("日本語のラベル", 0.7, true), (&long, 0.3, false)]);
        for width in 30..120 {
            for logits in [false, true] {
                for line in plain(&answer, &Style { width: Some(width), logits }).lines() {
                    assert!(cells(line) <= width, "{width}: {line}");
                }
            }
        }
        assert!(plain(&answer, &Style { width: None, logits: false }).contains(&long));
    }

    #[test]
    fn columns_line_up() {
        let text =
            plain(&answer(&[("日本", 0.6, true), ("abc", 0.4, false)]), &Style { width: None, logits: true });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].trim_end().split('%').next().map(cells), lines[1].split('%').next().map(cells));
        assert!(
            lines[0].starts_with("✓ 日本  ██") && lines[0].contains("60.0%") && lines[0].ends_with("1.5000")
        );
    }

    #[test]
    fn nothing_chosen_is_said() {
        let text = plain(&answer(&[("a", 0.1, false)]), &Style { width: None, logits: false });
        assert!(text.contains("no label reaches the threshold"));
    }

    #[test]
    fn cut_labels_are_marked_also_where_there_is_little_room() {
        let mut answer = answer(&[("a rather long label", 0.6, true), ("b", 0.4, false)]);
        answer.cut_labels = vec!["a rather long label".into()];
        for width in [None, Some(40)] {
            let text = plain(&answer, &Style { width, logits: false });
            assert!(text.starts_with("✓ (cut) a") && text.matches("(cut)").count() == 1, "{text}");
        }
    }

    #[test]
    fn control_characters_stay_out() {
        let text =
            plain(&answer(&[("a\u{1b}]0;x\u{7}\nb", 0.1, true)]), &Style { width: None, logits: false });
        assert!(!text.contains(['\u{1b}', '\u{7}']) && text.lines().count() == 1);
    }
}
