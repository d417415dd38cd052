//! JSON values as the reference program sees them: order, whole numbers of any size, floats.

mod number;
mod parse;
mod write;

pub use number::Integer;
pub(crate) use write::write_string;

/// A JSON value that keeps what `serde_json` would change: the order of keys, every digit of a whole number, the
/// difference between `1` and `1.0`, and numbers beyond the range of f64 (infinite, as in Python).
///
/// [`Json::parse`] makes trees of at most [`MAX_JSON_DEPTH`](crate::request::limits::MAX_JSON_DEPTH) levels; a deeper
/// one made in code may overflow the stack where it is written or dropped.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number written without a point and without an exponent.
    Integer(Integer),
    /// Any other number. Infinite if it is beyond the range of f64; never NaN when parsed.
    Float(f64),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// A map in the order of its keys, each of which stands once.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// What kind of value it is, in words for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "a list",
            Self::Object(_) => "a map",
        }
    }

    /// The value of a key; `None` also where this is no map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number as f64, if it is one: the nearest f64, infinite beyond its range.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Integer(integer) => Some(integer.to_f64()),
            Self::Float(float) => Some(*float),
            _ => None,
        }
    }

    /// It holds a float that is not finite, which JSON text cannot say.
    pub fn has_non_finite(&self) -> bool {
        match self {
            Self::Float(float) => !float.is_finite(),
            Self::Array(items) => items.iter().any(Self::has_non_finite),
            Self::Object(entries) => entries.iter().any(|(_, value)| value.has_non_finite()),
            _ => false,
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Integer(Integer::from(value))
    }
}

impl From<f64> for Json {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}
