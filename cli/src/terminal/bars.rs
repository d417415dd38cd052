//! Probabilities as bars: a mark, a label, a bar and a percentage a line.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use super::{cells, elide};

/// Cells of a full bar where the terminal has room.
const BAR: usize = 30;

/// Widths of the label column and of the bar, in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The labels.
    pub(crate) label: usize,
    /// The bars.
    pub(crate) bar: usize,
}

impl Columns {
    /// For labels of at most `widest` cells on a terminal of `width` (`None`: nothing is cut), with `more` cells behind
    /// each line.
    pub(crate) fn fit(width: Option<usize>, widest: usize, more: usize) -> Self {
        let Some(width) = width else { return Self { label: widest, bar: BAR } };
        // Mark, two gaps and percentage.
        let room = width.saturating_sub(2 + 2 + 2 + 6 + more);
        let bar = room.saturating_sub(widest).clamp((room / 4).min(BAR), BAR);
        Self { label: widest.min(room.saturating_sub(bar)).max(1), bar }
    }
}

/// A bar of `score` × `width` cells, in eighths of a cell, padded to `width`.
pub(crate) fn bar(score: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = if score.is_finite() { score.clamp(0.0, 1.0) } else { 0.0 };
    // At most 8 × BAR, so the cast is exact.
    let eighths = (share * (width * 8) as f64).round() as usize;
    let mut out = "█".repeat(eighths / 8);
    out.push_str(EIGHTHS[eighths % 8]);
    let used = eighths.div_ceil(8);
    out.push_str(&" ".repeat(width - used));
    out
}

/// `label` cut and padded to `width` cells.
pub(crate) fn column(label: &str, width: usize) -> String {
    let shown = elide(label, width);
    format!("{shown}{}", " ".repeat(width.saturating_sub(cells(&shown))))
}

/// Writes a line without its end.
pub(crate) fn line(
    out: &mut impl Write,
    columns: Columns,
    label: &str,
    score: f64,
    chosen: bool,
) -> io::Result<()> {
    let (mark, text, ink) = if chosen {
        ("✓", Style::new().bold(), AnsiColor::Green.on_default())
    } else {
        (" ", Style::new(), Style::new().dimmed())
    };
    let (label, bar) = (column(label, columns.label), bar(score, columns.bar));
    let percent = score * 100.0;
    write!(out, "{ink}{mark}{ink:#} {text}{label}{text:#}  {ink}{bar}{ink:#}  {text}{percent:>5.1}%{text:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_a_fixed_width() {
        for score in [0.0, 0.001, 0.5, 0.999, 1.0, 2.0, -1.0, f64::NAN] {
            assert_eq!(cells(&bar(score, 10)), 10, "{score}");
        }
        assert_eq!(bar(0.5, 4), "██  ");
        assert_eq!(bar(1.0, 2), "██");
    }
}
