//! The scores in the shape of the labels: branches as headings, leaves with bars.

use std::io::{self, Write};

use serde_json::Value;

use super::table::Style;
use crate::terminal::bars::{bar, column};
use crate::terminal::{cells, visible};

/// A line of the drawing: its depth, its name, and the score of a leaf.
struct Line {
    depth: usize,
    name: String,
    score: Option<f64>,
}

/// Draws a tree of scores.
pub(super) fn render(tree: &Value, style: &Style, out: &mut impl Write) -> io::Result<()> {
    let mut lines = Vec::new();
    collect(tree, 0, &mut lines);
    let widest = lines.iter().map(|l| 2 * l.depth + cells(&l.name)).max().unwrap_or(0);
    let columns = style.columns(widest);
    let bold = anstyle::Style::new().bold();
    for line in &lines {
        let label = column(&format!("{}{}", "  ".repeat(line.depth), line.name), columns.label);
        match line.score {
            None => writeln!(out, "  {bold}{}{bold:#}", label.trim_end())?,
            Some(score) => {
                let percent = score * 100.0;
                writeln!(out, "  {label}  {}  {percent:>5.1}%", bar(score, columns.bar))?;
            }
        }
    }
    Ok(())
}

fn collect(tree: &Value, depth: usize, lines: &mut Vec<Line>) {
    let Value::Object(branches) = tree else { return };
    for (name, value) in branches {
        let score = value.as_f64();
        lines.push(Line { depth, name: visible(name).into_owned(), score });
        // The depth of a tree is bounded by the JSON parser that read the labels.
        collect(value, depth + 1, lines);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn branches_and_leaves() {
        let tree = json!({"tone": {"calm": 0.25, "angry": 0.75}, "topic": {"bill": {"late": 0.5}}});
        let mut out = Vec::new();
        render(&tree, &Style { width: None, logits: false }, &mut out).unwrap();
        let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        let names: Vec<&str> = text.lines().map(|l| l.split("  █").next().unwrap().trim_end()).collect();
        assert_eq!(names, ["  tone", "    calm", "    angry", "  topic", "    bill", "      late"]);
        assert!(text.lines().nth(2).unwrap().ends_with("75.0%"));
    }
}
