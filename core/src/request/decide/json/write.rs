//! Value → JSON text.

use std::fmt;

use super::Json;
use super::number::python_float;

impl Json {
    /// JSON text without spaces, keys sorted by code point at every depth: Python's
    /// `json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)`.
    ///
    /// Floats that are not finite become `Infinity`, `-Infinity` and `NaN`, as there.
    pub fn to_sorted_text(&self) -> String {
        let mut text = String::new();
        Writer { text: &mut text, sorted: true, indent: None }.value(self, 0);
        text
    }

    /// JSON text over several lines, two spaces a level, keys in their order.
    pub fn to_pretty_text(&self) -> String {
        let mut text = String::new();
        Writer { text: &mut text, sorted: false, indent: Some(2) }.value(self, 0);
        text
    }
}

/// JSON text without spaces, keys in their order.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        Writer { text: &mut text, sorted: false, indent: None }.value(self, 0);
        f.write_str(&text)
    }
}

/// A string in JSON's quotes; only what must be escaped is, so that other characters stay as they are.
pub(crate) fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\0'..'\u{20}' => text.push_str(&format!("\\u{:04x}", u32::from(character))),
            other => text.push(other),
        }
    }
    text.push('"');
}

struct Writer<'t> {
    text: &'t mut String,
    sorted: bool,
    indent: Option<usize>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Json, depth: usize) {
        match value {
            Json::Null => self.text.push_str("null"),
            Json::Bool(true) => self.text.push_str("true"),
            Json::Bool(false) => self.text.push_str("false"),
            Json::Integer(integer) => self.text.push_str(&integer.to_string()),
            Json::Float(float) => self.text.push_str(&python_float(*float)),
            Json::String(string) => write_string(self.text, string),
            Json::Array(items) => {
                self.text.push('[');
                for (i, item) in items.iter().enumerate() {
                    self.next(i, depth + 1);
                    self.value(item, depth + 1);
                }
                self.end(']', items.is_empty(), depth);
            }
            Json::Object(entries) => {
                self.text.push('{');
                let mut order: Vec<&(String, Json)> = entries.iter().collect();
                if self.sorted {
                    // UTF-8 sorts like code points.
                    order.sort_by(|a, b| a.0.cmp(&b.0));
                }
                for (i, (key, item)) in order.into_iter().enumerate() {
                    self.next(i, depth + 1);
                    write_string(self.text, key);
                    self.text.push_str(if self.indent.is_some() { ": " } else { ":" });
                    self.value(item, depth + 1);
                }
                self.end('}', entries.is_empty(), depth);
            }
        }
    }

    fn next(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.text.push(',');
        }
        self.line(depth);
    }

    fn end(&mut self, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.line(depth);
        }
        self.text.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }
}
