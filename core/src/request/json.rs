//! JSON text from callers, in which no key may stand twice.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::quote::step;
use crate::{Error, Result};

/// JSON text as a value; the order of keys is kept.
///
/// `serde_json` alone keeps the last of equal keys in silence, and a label or a text would be lost.
///
/// # Errors
/// [`Error::InvalidRequest`] for text that is not JSON or nested deeper than 128 levels, and for a key that an object
/// has twice, with the path of that key as the field.
pub fn parse_json(text: impl AsRef<[u8]>) -> Result<Value> {
    let twice = RefCell::new(None);
    let mut json = serde_json::Deserializer::from_slice(text.as_ref());
    let strict = Strict { path: None, twice: &twice };
    let value = strict.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    value.map_err(|error| match twice.take() {
        Some(path) => Error::invalid(path, "this key stands twice; each key may stand once"),
        None => Error::invalid("request", format!("not JSON: {error}")),
    })
}

/// One step from the root to a value.
struct Path<'p> {
    above: Option<&'p Path<'p>>,
    step: Step<'p>,
}

enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => {
                f.write_str(if self.above.is_some() { "." } else { "" })?;
                f.write_str(&step(key))
            }
        }
    }
}

/// Reads a value; where a key stands twice, leaves its path in `twice`.
struct Strict<'p> {
    path: Option<&'p Path<'p>>,
    twice: &'p RefCell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = Path { above: self.path, step: Step::Index(list.len()) };
            match items.next_element_seed(Strict { path: Some(&path), twice: self.twice })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = Path { above: self.path, step: Step::Key(&key) };
            if map.contains_key(&key) {
                self.twice.replace(Some(path.to_string()));
                return Err(A::Error::custom("a key stands twice"));
            }
            let value = entries.next_value_seed(Strict { path: Some(&path), twice: self.twice })?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_values_as_without_the_check() -> Result<()> {
        for text in [
            "null",
            " [true, false, 0, -1, 18446744073709551615, -9223372036854775808, 1e3, 0.1, \"\\ud83d\\ude80é\"] ",
            "{\"b\": {\"a\": [], \"\": {}}, \"a\": {\"a\": 1}}",
        ] {
            let plain: Value = serde_json::from_str(text).map_err(|e| Error::Internal(e.to_string()))?;
            assert_eq!(parse_json(text)?, plain);
            assert_eq!(parse_json(text)?.to_string(), plain.to_string(), "the order of keys");
        }
        Ok(())
    }

    #[test]
    fn a_key_that_stands_twice_is_named() {
        for (text, path) in [
            ("{\"text\": \"trips\", \"text\": \"pizza\"}", "text"),
            ("{\"labels\": {\"a\": [\"b\"], \"a\": [\"c\"]}}", "labels.a"),
            ("[1, {\"x\": [{\"y z\": 1, \"y z\": 1}]}]", "[1].x[0].\"y z\""),
            ("{\"a\": 1, \"\\u0061\": 1}", "a"),
        ] {
            match parse_json(text) {
                Err(Error::InvalidRequest { field, .. }) => assert_eq!(field, path),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn other_text_is_no_json() {
        for text in ["", "{", "{} {}", "[1,]", "\u{feff}{}", "\"\\ud800\"", &"[".repeat(100_000)] {
            let error = parse_json(text).expect_err(text).to_string();
            assert!(error.contains("not JSON"), "{error}");
        }
        assert!(parse_json([0xFF]).is_err());
    }
}
