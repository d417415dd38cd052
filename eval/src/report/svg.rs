//! Small plots as SVG, without a library: lines, bars and a diagram of reliability.

use std::fmt::Write as _;

use super::MarginBin;
use crate::metrics::Bin;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;

/// One line of a plot; gaps where there is no value.
pub(super) struct Series<'a> {
    pub(super) name: &'a str,
    /// Class of its colour.
    pub(super) class: &'a str,
    pub(super) values: Vec<Option<f64>>,
}

/// Lines over numbered places, from zero up.
pub(super) fn lines(title: &str, across: &str, series: &[Series<'_>]) -> String {
    let all = series.iter().flat_map(|s| s.values.iter().flatten());
    let top = nice(all.copied().filter(|v| v.is_finite()).fold(0.0, f64::max));
    let count = series.iter().map(|s| s.values.len()).max().unwrap_or(0);
    let x = |i: usize| LEFT + (i as f64 + 0.5) / count.max(1) as f64 * (WIDTH - LEFT - RIGHT);
    let mut out = start(title);
    axis(&mut out, top, |v| format!("{v:.3}"));
    let step = count.div_ceil(16).max(1);
    for i in (0..count).step_by(step) {
        let _ =
            write!(out, "<text class=\"l\" x=\"{:.1}\" y=\"{:.1}\">{i}</text>", x(i), HEIGHT - BOTTOM + 16.0);
    }
    label(&mut out, across);
    for s in series {
        let mut points = String::new();
        for (i, value) in s.values.iter().enumerate() {
            let Some(value) = value.filter(|v| v.is_finite()) else { continue };
            let _ = write!(points, "{:.1},{:.1} ", x(i), y(value, top));
            let _ = write!(
                out,
                "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{} {i}: {value:.5}</title></circle>",
                s.class,
                x(i),
                y(value, top),
                s.name
            );
        }
        let _ = write!(out, "<polyline class=\"{}\" points=\"{}\"/>", s.class, points.trim_end());
    }
    for (i, s) in series.iter().enumerate() {
        let at = LEFT + 10.0 + i as f64 * 130.0;
        let _ = write!(
            out,
            "<rect class=\"{}\" x=\"{at:.1}\" y=\"6\" width=\"10\" height=\"10\"/><text x=\"{:.1}\" y=\"15\">{}</text>",
            s.class,
            at + 14.0,
            s.name
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The share of decisions that agree, by margin.
pub(super) fn margins(title: &str, bins: &[MarginBin]) -> String {
    let mut out = start(title);
    axis(&mut out, 1.0, percent);
    let width = (WIDTH - LEFT - RIGHT) / bins.len().max(1) as f64;
    for (i, bin) in bins.iter().enumerate() {
        let share = bin.agreeing as f64 / bin.of.max(1) as f64;
        let at = LEFT + i as f64 * width;
        let _ = write!(
            out,
            "<rect class=\"a\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{} of {}</title></rect>\
             <text class=\"l\" x=\"{:.1}\" y=\"{:.1}\">{}–{}</text>",
            at + 4.0,
            y(share, 1.0),
            width - 8.0,
            y(0.0, 1.0) - y(share, 1.0),
            bin.agreeing,
            bin.of,
            at + width / 2.0,
            HEIGHT - BOTTOM + 16.0,
            bin.from,
            bin.to
        );
        let _ = write!(
            out,
            "<text class=\"l i\" x=\"{:.1}\" y=\"{:.1}\">{}/{}</text>",
            at + width / 2.0,
            HEIGHT - BOTTOM - 6.0,
            bin.agreeing,
            bin.of
        );
    }
    label(&mut out, "margin of the reference");
    out.push_str("</svg>\n");
    out
}

/// Accuracy by confidence, beside the line on which they are equal.
pub(super) fn reliability(title: &str, sides: &[(&str, &str, &[Bin])]) -> String {
    let mut out = start(title);
    axis(&mut out, 1.0, percent);
    let x = |v: f64| LEFT + v * (WIDTH - LEFT - RIGHT);
    let _ = write!(
        out,
        "<line class=\"g\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        x(0.0),
        y(0.0, 1.0),
        x(1.0),
        y(1.0, 1.0)
    );
    for i in 0..=5 {
        let v = f64::from(i) / 5.0;
        let _ = write!(
            out,
            "<text class=\"l\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x(v),
            HEIGHT - BOTTOM + 16.0,
            percent(v)
        );
    }
    for (i, (name, class, bins)) in sides.iter().enumerate() {
        let points: Vec<String> =
            bins.iter().map(|b| format!("{:.1},{:.1}", x(b.confidence), y(b.accuracy, 1.0))).collect();
        let _ = write!(out, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
        for b in *bins {
            let _ = write!(
                out,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{name}: {} decisions, confidence {:.3}, right {:.3}</title></circle>",
                x(b.confidence),
                y(b.accuracy, 1.0),
                b.count,
                b.confidence,
                b.accuracy
            );
        }
        let at = LEFT + 10.0 + i as f64 * 130.0;
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{at:.1}\" y=\"6\" width=\"10\" height=\"10\"/><text x=\"{:.1}\" y=\"15\">{name}</text>",
            at + 14.0
        );
    }
    label(&mut out, "confidence; accuracy upwards");
    out.push_str("</svg>\n");
    out
}

/// Two bars a row, as shares of the larger.
pub(super) fn bars(title: &str, rows: &[(&str, [f64; 2], [String; 2])]) -> String {
    let height = 30.0 + rows.len() as f64 * 62.0;
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>"
    );
    let room = WIDTH - 330.0;
    for (i, (name, values, shown)) in rows.iter().enumerate() {
        let top = 14.0 + i as f64 * 62.0;
        let largest = values[0].max(values[1]).max(f64::MIN_POSITIVE);
        let _ = write!(out, "<text x=\"0\" y=\"{:.1}\">{name}</text>", top + 26.0);
        for (side, (value, class)) in values.iter().zip(["a", "b"]).enumerate() {
            let at = top + side as f64 * 24.0;
            let _ = write!(
                out,
                "<rect class=\"{class}\" x=\"130\" y=\"{at:.1}\" width=\"{:.1}\" height=\"18\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                (value / largest * room).max(1.0),
                138.0 + value / largest * room,
                at + 14.0,
                shown[side]
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

fn start(title: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>"
    )
}

fn y(value: f64, top: f64) -> f64 {
    HEIGHT - BOTTOM - (value / top).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM - 12.0)
}

fn axis(out: &mut String, top: f64, shown: impl Fn(f64) -> String) {
    for i in 0..=4 {
        let value = top * f64::from(i) / 4.0;
        let at = y(value, top);
        let _ = write!(
            out,
            "<line class=\"g\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\"/><text class=\"r\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            shown(value)
        );
    }
}

fn label(out: &mut String, text: &str) {
    let _ = write!(
        out,
        "<text class=\"l\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0
    );
}

fn percent(value: f64) -> String {
    format!("{:.0} %", 100.0 * value)
}

/// The next number of the form 1, 2 or 5 times a power of ten.
fn nice(largest: f64) -> f64 {
    if largest <= 0.0 || !largest.is_finite() {
        return 1.0;
    }
    let unit = 10f64.powf(largest.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * unit).find(|v| *v >= largest).unwrap_or(10.0 * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (largest, want) in
            [(0.0, 1.0), (f64::NAN, 1.0), (0.013, 0.02), (0.4, 0.5), (7.0, 10.0), (1.0, 1.0)]
        {
            assert!((nice(largest) - want).abs() < 1e-12, "{largest}");
        }
    }

    #[test]
    fn values_that_are_no_numbers_leave_gaps() {
        let series =
            Series { name: "s", class: "a", values: vec![Some(0.1), None, Some(f64::NAN), Some(0.2)] };
        let plot = lines("t", "x", &[series]);
        assert_eq!(plot.matches("<circle").count(), 2);
        assert!(!plot.contains("NaN"));
    }
}
