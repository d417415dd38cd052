//! Hostile JSON: size and depth limits, and typed, bounded reading of an object's fields.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::{Error, Result};

/// Largest configuration or index file. `serde_json` itself stops at 128 levels.
const MAX_BYTES: usize = 16 << 20;

/// The object that a file holds.
///
/// # Errors
/// [`Error::Checkpoint`] naming the file when it is too large, malformed, too deep, or not an object.
pub(crate) fn object(file: &str, bytes: &[u8]) -> Result<Map<String, Value>> {
    if bytes.len() > MAX_BYTES {
        return Err(Error::checkpoint(file, format!("{} bytes found, {MAX_BYTES} allowed", bytes.len())));
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(other) => Err(Error::checkpoint(file, format!("{} found, allowed: an object", short(&other)))),
        Err(e) => Err(Error::checkpoint(file, format!("not JSON: {e}"))),
    }
}

/// A value, short enough for a message.
pub(crate) fn short(value: &Value) -> String {
    const LONGEST: usize = 60;
    match value {
        Value::Array(a) => format!("an array of {}", a.len()),
        Value::Object(o) => format!("an object of {}", o.len()),
        other => {
            let text = other.to_string();
            if text.chars().nth(LONGEST).is_none() {
                text
            } else {
                text.chars().take(LONGEST).chain(['…']).collect()
            }
        }
    }
}

/// The fields of an object; `null` counts as absent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    file: &'a str,
    prefix: &'a str,
}

impl<'a> Fields<'a> {
    /// Fields of `map`; messages say `file: prefix + key`.
    pub(crate) fn new(file: &'a str, prefix: &'a str, map: &'a Map<String, Value>) -> Self {
        Self { map, file, prefix }
    }

    /// A field, unless absent or null.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|v| !v.is_null())
    }

    /// The error for a field: what was found there and what is allowed.
    pub(crate) fn bad(&self, key: &str, allowed: &str) -> Error {
        let found = self.map.get(key).map_or_else(|| "nothing".to_owned(), short);
        Error::checkpoint(
            format!("{}: {}{key}", self.file, self.prefix),
            format!("{found} found, allowed: {allowed}"),
        )
    }

    /// A whole number in a range ; `16.0` is none.
    pub(crate) fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().filter(|n| range.contains(n));
        match number {
            Some(n) => Ok(Some(n)),
            None => Err(self.bad(key, &format!("a whole number from {} to {}", range.start(), range.end()))),
        }
    }

    /// A size in a range.
    pub(crate) fn size(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<usize>> {
        let Some(n) = self.integer(key, range)? else { return Ok(None) };
        usize::try_from(n).map(Some).map_err(|_| self.bad(key, "a size that this machine can address"))
    }

    /// A size that must be there.
    pub(crate) fn required_size(&self, key: &str, range: RangeInclusive<u64>) -> Result<usize> {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        self.size(key, range)?.ok_or_else(|| self.bad(key, &allowed))
    }

    /// A positive number of at most `max`.
    pub(crate) fn positive(&self, key: &str, max: f32) -> Result<Option<f32>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64().map(|v| v as f32).filter(|v| *v > 0.0 && *v <= max) {
            Some(v) => Ok(Some(v)),
            None => Err(self.bad(key, &format!("a number over 0, at most {max}"))),
        }
    }

    /// A truth value, or the default.
    pub(crate) fn boolean(&self, key: &str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Bool(b)) => Ok(*b),
            Some(_) => Err(self.bad(key, "true or false")),
        }
    }

    /// A string.
    pub(crate) fn string(&self, key: &str) -> Result<Option<&'a str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(_) => Err(self.bad(key, "a string")),
        }
    }

    /// One of some named values, or the default.
    pub(crate) fn choice<T: Copy>(&self, key: &str, default: T, choices: &[(&str, T)]) -> Result<T> {
        let Some(found) = self.string(key)? else { return Ok(default) };
        match choices.iter().find(|(name, _)| *name == found) {
            Some((_, value)) => Ok(*value),
            None => Err(self.bad(key, &choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))),
        }
    }

    /// An object.
    pub(crate) fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(o)) => Ok(Some(o)),
            Some(_) => Err(self.bad(key, "an object")),
        }
    }
}
