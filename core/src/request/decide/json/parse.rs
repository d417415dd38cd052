//! JSON text → value.

use super::{Integer, Json};
use crate::request::limits::{MAX_INTEGER_DIGITS, MAX_JSON_BYTES, MAX_JSON_DEPTH, MAX_JSON_VALUES};
use crate::request::validate::at_most;
use crate::{Error, Result};

impl Json {
    /// Reads JSON text.
    ///
    /// Of keys that an object has twice the last value stays, at the place of the first, as in Python's parser. Numbers
    /// beyond the range of f64 become infinite, as there.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] with the line and column for text that is not JSON (also `NaN` and `Infinity`, which
    /// Python would take, and half a surrogate pair, which is no text), and [`Error::TooLarge`] for text over
    /// [`MAX_JSON_BYTES`], more than [`MAX_JSON_VALUES`] values, values over [`MAX_JSON_DEPTH`] levels deep and whole
    /// numbers of more than [`MAX_INTEGER_DIGITS`] digits (Python's own limit).
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self> {
        let bytes = text.as_ref();
        at_most("bytes of JSON", bytes.len(), MAX_JSON_BYTES)?;
        let text = std::str::from_utf8(bytes)
            .map_err(|error| Error::invalid(FIELD, format!("not UTF-8: {error}")))?;
        let mut parser = Parser { text, at: 0, values: 0 };
        let value = parser.value(0)?;
        parser.space();
        if parser.at < text.len() {
            return Err(parser.wrong("more text after the value"));
        }
        Ok(value)
    }
}

/// The field under which errors of the text are reported.
const FIELD: &str = "request";

struct Parser<'t> {
    text: &'t str,
    /// The next byte; always between two characters where `text` is sliced.
    at: usize,
    values: usize,
}

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> Result<Json> {
        self.values += 1;
        at_most("values in JSON", self.values, MAX_JSON_VALUES)?;
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
            None => Err(self.wrong("the text ends where a value should stand")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json> {
        at_most("levels of nesting in JSON", depth, MAX_JSON_DEPTH)?;
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            self.space();
            if self.take(b']') {
                return Ok(Json::Array(items));
            }
            self.expect(b',', "a comma or the end of the list")?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json> {
        at_most("levels of nesting in JSON", depth, MAX_JSON_DEPTH)?;
        self.at += 1;
        let mut entries = Vec::new();
        self.space();
        if self.take(b'}') {
            return Ok(Json::Object(entries));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key in double quotes should stand here"));
            }
            let key = self.string()?;
            self.space();
            self.expect(b':', "a colon")?;
            entries.push((key, self.value(depth)?));
            self.space();
            if self.take(b'}') {
                return Ok(Json::Object(last_of_each(entries)));
            }
            self.expect(b',', "a comma or the end of the map")?;
        }
    }

    fn string(&mut self) -> Result<String> {
        let start = self.at;
        self.at += 1;
        let mut escapes = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escapes = true;
                    // What is escaped may be a quote; anything else is looked at below.
                    self.at += 2;
                }
                Some(0..0x20) => return Err(self.wrong("a control character stands in a string")),
                Some(_) => self.at += 1,
                None => {
                    self.at = start;
                    return Err(self.wrong("a string without an end starts here"));
                }
            }
        }
        self.at += 1;
        if !escapes {
            return Ok(self.text[start + 1..self.at - 1].to_owned());
        }
        serde_json::from_str(&self.text[start..self.at]).map_err(|_| {
            self.at = start;
            self.wrong("a string with an unknown escape or half a surrogate pair starts here")
        })
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        let negative = self.take(b'-');
        let whole = self.digits();
        // `-Infinity` is Python's, not JSON's.
        if whole == 0 && negative && self.peek() == Some(b'I') {
            return self.word();
        }
        let leading_zero = whole > 1 && self.text.as_bytes()[self.at - whole] == b'0';
        let mut good = whole > 0 && !leading_zero;
        let mut float = false;
        if self.take(b'.') {
            float = true;
            good &= self.digits() > 0;
        }
        if self.take(b'e') || self.take(b'E') {
            float = true;
            let _ = self.take(b'+') || self.take(b'-');
            good &= self.digits() > 0;
        }
        let literal = &self.text[start..self.at];
        if !good {
            self.at = start;
            return Err(self.wrong("a number that JSON does not allow starts here"));
        }
        if !float {
            at_most("digits of a whole number", whole, MAX_INTEGER_DIGITS)?;
            return Ok(Json::Integer(Integer::from_literal(literal)));
        }
        literal.parse().map(Json::Float).map_err(|_| self.wrong("a number that cannot be read"))
    }

    /// `null`, `true` or `false`.
    fn word(&mut self) -> Result<Json> {
        let rest = &self.text[self.at..];
        for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
        {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        match ["NaN", "Infinity"].into_iter().find(|word| rest.starts_with(word)) {
            Some(word) => {
                Err(self.wrong(&format!("{word} is no JSON number; only finite numbers are allowed")))
            }
            None => Err(self.wrong("this starts no value")),
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<()> {
        if self.take(byte) { Ok(()) } else { Err(self.wrong(&format!("{what} should stand here"))) }
    }

    /// The error at the current byte. It shows none of the text, which may be private.
    fn wrong(&self, message: &str) -> Error {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        Error::invalid(FIELD, format!("not JSON: line {line}, byte {column}: {message}"))
    }
}

/// Of equal keys the last value, at the place of the first key.
fn last_of_each(mut entries: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    // Stable, so that equal keys stay in the order of the text.
    order.sort_by(|&a, &b| entries[a].0.cmp(&entries[b].0));
    let mut keep = vec![true; entries.len()];
    let mut first = 0;
    for pair in order.windows(2) {
        let (before, this) = (pair[0], pair[1]);
        if keep[before] {
            first = before;
        }
        if entries[before].0 == entries[this].0 {
            entries[first].1 = std::mem::replace(&mut entries[this].1, Json::Null);
            keep[this] = false;
        }
    }
    let mut kept = keep.into_iter();
    entries.retain(|_| kept.next().unwrap_or(true));
    entries
}
