//! JSON values that only pass through: a number keeps its digits, which a float would not.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON value as it was written, without white space around its parts.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Verbatim(Option<Box<RawValue>>);

impl Verbatim {
    /// The JSON text.
    pub(super) fn text(&self) -> &str {
        self.0.as_deref().map_or("null", RawValue::get)
    }

    /// What it means; numbers are rounded.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_default()
    }

    /// As a CSV cell: strings as they are, null as nothing, the rest as JSON.
    pub(super) fn cell(&self) -> Cow<'_, str> {
        match self.text() {
            "null" => Cow::Borrowed(""),
            text if text.starts_with('"') => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
            text => Cow::Borrowed(text),
        }
    }
}

impl From<&RawValue> for Verbatim {
    fn from(raw: &RawValue) -> Self {
        Self(RawValue::from_string(compact(raw.get())).ok())
    }
}

impl From<&str> for Verbatim {
    fn from(text: &str) -> Self {
        Self(RawValue::from_string(Value::from(text).to_string()).ok())
    }
}

impl PartialEq for Verbatim {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl PartialEq<Value> for Verbatim {
    fn eq(&self, other: &Value) -> bool {
        self.value() == *other
    }
}

/// JSON without the white space outside its strings: a record is one line.
fn compact(json: &str) -> String {
    let (mut quoted, mut escaped) = (false, false);
    let kept = json.chars().filter(|&c| {
        let keep = quoted || !c.is_ascii_whitespace();
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
        keep
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_between_tokens_goes() {
        let json = "{ \"a \\\" b\\\\\" :\t[ 1.0,\r 12345678901234567890123 , \" \" ] }";
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let value = Verbatim::from(&*raw);
        assert_eq!(value.text(), "{\"a \\\" b\\\\\":[1.0,12345678901234567890123,\" \"]}");
    }

    #[test]
    fn cells() {
        let cell = |json: &str| {
            Verbatim::from(&*RawValue::from_string(json.to_owned()).unwrap()).cell().into_owned()
        };
        assert_eq!([cell("null"), cell("\"\\u0041\""), cell("1.50")], ["", "A", "1.50"]);
        assert_eq!(Verbatim::from("a\"b").cell(), "a\"b");
    }
}
