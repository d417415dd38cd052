//! What may reach a terminal: visible characters, cut to a width counted in cells.

pub(crate) mod bars;
mod words;

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub(crate) use words::{counted, listed, noun_for};

/// Prints a warning to standard error.
pub(crate) fn warn(message: &str) {
    let style = anstyle::AnsiColor::Yellow.on_default().bold();
    // A closed standard error is no reason to fail.
    let _ = writeln!(anstream::stderr(), "{style}warning:{style:#} {}", visible(message));
}

/// Width of standard output in cells; `None` when it is not a terminal and lines need no cutting.
pub(crate) fn stdout_width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let columns = std::env::var("COLUMNS").ok().and_then(|v| v.trim().parse().ok()).filter(|n| *n > 0);
    columns.or_else(|| terminal_size::terminal_size_of(&stdout).map(|(w, _)| usize::from(w.0))).or(Some(80))
}

/// Characters that would move the cursor, start an escape sequence or reorder what stands beside them.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The text with control and direction characters written as escapes (`\n`, `\u{1b}`).
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// JSON with the unsafe characters of its strings written as `\\u` escapes; JSON itself only demands it of some.
pub(crate) fn escape_json(json: Vec<u8>) -> Vec<u8> {
    let line_end = |c: char| c == '\n';
    match std::str::from_utf8(&json) {
        Ok(text) if text.contains(|c| is_unsafe(c) && !line_end(c)) => {
            let mut out = String::with_capacity(text.len() + 16);
            for c in text.chars() {
                if is_unsafe(c) && !line_end(c) {
                    // All of them lie in the basic plane.
                    out.push_str(&format!("\\u{:04x}", u32::from(c)));
                } else {
                    out.push(c);
                }
            }
            out.into_bytes()
        }
        _ => json,
    }
}

/// Width of a visible text in cells.
pub(crate) fn cells(text: &str) -> usize {
    text.width()
}

/// The text cut to at most `width` cells, with an ellipsis where something was cut.
pub(crate) fn elide(text: &str, width: usize) -> Cow<'_, str> {
    if cells(text) <= width {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut used = 1; // the ellipsis
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        out.push(c);
    }
    if width > 0 {
        out.push('…');
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_never_reach_the_terminal() {
        assert_eq!(visible("plain, 日本語"), "plain, 日本語");
        assert_eq!(visible("a\u{1b}[31mb\nc"), "a\\u{1b}[31mb\\nc");
        assert_eq!(visible("x\u{202E}y\u{9b}z"), "x\\u{202e}y\\u{9b}z");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"a\u{9b}": "x\u{202E}y\u{1b}z\n", "b": "日本"});
        let escaped = escape_json(serde_json::to_vec_pretty(&value).unwrap());
        assert!(!std::str::from_utf8(&escaped).unwrap().contains(|c: char| is_unsafe(c) && c != '\n'));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&escaped).unwrap(), value);
    }

    #[test]
    fn elision_counts_cells_and_not_characters() {
        assert_eq!(elide("short", 5), "short");
        assert_eq!(elide("longer", 5), "long…");
        assert_eq!(elide("日本語", 5), "日本…");
        assert_eq!(elide("日本語", 4), "日…");
        assert_eq!(elide("日本語", 1), "…");
        assert_eq!(elide("日本語", 0), "");
        for width in 0..8 {
            assert!(cells(&elide("a日b本c語", width)) <= width);
        }
    }
}
