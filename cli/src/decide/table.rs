//! The answers as people see them: each question with its options, a bar and a percentage a line.

use std::io::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use dikast_core::answers::{Answer, Decision};
use dikast_core::request::Json;

use crate::terminal::bars::{self, Columns};
use crate::terminal::{cells, counted, elide, visible};

/// How to draw.
#[derive(Debug, Clone)]
pub(super) struct Table<'a> {
    /// The questions.
    pub(super) titles: &'a [String],
    /// Width of the terminal; `None`: nothing is cut.
    pub(super) width: Option<usize>,
    /// Show the weights' format and digest.
    pub(super) receipt: bool,
}

/// An option with its probability.
struct Line {
    label: String,
    probability: f64,
    chosen: bool,
}

impl Table<'_> {
    /// Draws all answers and where they came from.
    pub(super) fn render(
        &self,
        decision: &Decision,
        elapsed: Duration,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let answers: Vec<Vec<Line>> = decision.answers.iter().map(|(_, answer)| lines(answer)).collect();
        let widest = answers.iter().flatten().map(|line| cells(&line.label)).max().unwrap_or(0);
        let columns = Columns::fit(self.width, widest, 0);
        for ((title, (_, answer)), lines) in self.titles.iter().zip(&decision.answers).zip(&answers) {
            self.heading(title, answer, out)?;
            for line in lines {
                bars::line(out, columns, &line.label, line.probability, line.chosen)?;
                writeln!(out)?;
            }
            writeln!(out)?;
        }
        self.footer(decision, elapsed, out)
    }

    fn heading(&self, title: &str, answer: &Answer, out: &mut impl Write) -> io::Result<()> {
        let note = note(answer);
        let title = visible(title);
        let title = match self.width {
            // At least some of the question is shown, and the line is wrapped if that is too much.
            Some(width) => elide(&title, width.saturating_sub(cells(&note) + 2).max(12)),
            None => title,
        };
        let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
        if note.is_empty() {
            return writeln!(out, "{bold}{title}{bold:#}");
        }
        writeln!(out, "{bold}{title}{bold:#}  {dim}{note}{dim:#}")
    }

    fn footer(&self, decision: &Decision, elapsed: Duration, out: &mut impl Write) -> io::Result<()> {
        let dim = Style::new().dimmed();
        let receipt = &decision.receipt;
        let (model, backend) = (visible(&receipt.model), visible(&receipt.backend));
        let (tokens, millis) = (counted(receipt.tokens, "token"), elapsed.as_secs_f64() * 1e3);
        writeln!(out, "{dim}{model} · {backend} · {tokens} · {millis:.0} ms{dim:#}")?;
        if self.receipt {
            let device = receipt.device.as_deref().map(|d| format!("{} · ", visible(d))).unwrap_or_default();
            let digest = receipt.checkpoint_digest.as_deref().unwrap_or("unknown");
            writeln!(out, "{dim}{device}{} · SHA-256 {digest}{dim:#}", visible(&receipt.quantization))?;
        }
        if receipt.dropped_state_tokens > 0 {
            let warn = AnsiColor::Yellow.on_default();
            let dropped = counted(receipt.dropped_state_tokens, "token");
            writeln!(out, "{warn}not read: {dropped} at the end of the state{warn:#}")?;
        }
        Ok(())
    }
}

/// What there is to say of an answer besides its probabilities.
fn note(answer: &Answer) -> String {
    match answer {
        Answer::Noul { .. } => String::new(),
        Answer::Choice { confidence, .. } => format!("confidence {confidence:.2}"),
        Answer::Score { score, confidence, probabilities, .. } => {
            let highest = probabilities.len().saturating_sub(1);
            format!("{score:.2} on 0 to {highest}, confidence {confidence:.2}")
        }
    }
}

/// The lines of an answer: a choice best first, a scale from its lowest level.
fn lines(answer: &Answer) -> Vec<Line> {
    match answer {
        Answer::Noul { probability } => {
            let yes = *probability >= 0.5;
            vec![
                Line { label: "yes".to_owned(), probability: *probability, chosen: yes },
                Line { label: "no".to_owned(), probability: 1.0 - probability, chosen: !yes },
            ]
        }
        Answer::Choice { choice, probabilities, .. } => {
            let options = probabilities.iter().enumerate().map(|(i, (name, p))| Line {
                label: visible(name).into_owned(),
                probability: *p,
                chosen: i == *choice,
            });
            let mut lines: Vec<Line> = options.collect();
            lines.sort_by(|a, b| b.probability.total_cmp(&a.probability));
            lines
        }
        Answer::Score { legend, probabilities, .. } => {
            let best = probabilities.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let first = probabilities.iter().position(|p| *p == best);
            let levels = legend.iter().zip(probabilities).enumerate();
            let line = |(i, (level, p)): (usize, (&Json, &f64))| Line {
                label: format!("{i} {}", visible(&level_text(level))),
                probability: *p,
                chosen: first == Some(i),
            };
            levels.map(line).collect()
        }
    }
}

fn level_text(level: &Json) -> String {
    match level {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dikast_core::answers::DecideReceipt;

    fn decision() -> Decision {
        let answers = vec![
            ("a".to_owned(), Answer::Noul { probability: 0.25 }),
            (
                "b".to_owned(),
                Answer::Choice {
                    choice: 1,
                    confidence: 0.5,
                    probabilities: vec![("sales\u{1b}[2J".to_owned(), 0.25), ("日本".to_owned(), 0.75)],
                },
            ),
            (
                "c".to_owned(),
                Answer::Score {
                    score: 0.4,
                    confidence: 0.2,
                    legend: vec![Json::from("low"), Json::Object(vec![("x".to_owned(), Json::from(1.0))])],
                    probabilities: vec![0.6, 0.4],
                },
            ),
        ];
        let receipt = DecideReceipt { model: "m".into(), tokens: 3, ..DecideReceipt::default() };
        Decision { answers, truncation: None, receipt }
    }

    fn plain(width: Option<usize>) -> String {
        let titles = ["Is it late?", "Which \u{7}team?", "Urgency"].map(str::to_owned);
        let mut out = Vec::new();
        let table = Table { titles: &titles, width, receipt: true };
        table.render(&decision(), Duration::from_millis(5), &mut out).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    #[test]
    fn every_answer_has_its_lines() {
        let text = plain(None);
        let starts: Vec<&str> = text.lines().map(|l| l.split("  ").next().unwrap()).collect();
        assert_eq!(starts[0], "Is it late?");
        assert!(text.contains("  yes") && text.contains("✓ no"), "{text}");
        assert!(text.find("✓ 日本").unwrap() < text.find("sales").unwrap(), "best first: {text}");
        assert!(text.contains("Urgency  0.40 on 0 to 1, confidence 0.20"), "{text}");
        assert!(text.contains("✓ 0 low") && text.contains("  1 {\"x\":1.0}"), "{text}");
        assert!(text.contains("m ·  · 3 tokens · 5 ms") && text.contains("SHA-256 unknown"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
    }

    #[test]
    fn lines_fit_the_terminal() {
        for width in 50..100 {
            for line in plain(Some(width)).lines() {
                assert!(cells(line) <= width, "{width}: {line}");
            }
        }
    }
}
