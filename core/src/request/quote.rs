//! Short, printable forms of what a caller sent, for error messages.

use serde_json::Value;

/// Characters shown of a caller's string.
const SHOWN: usize = 40;

/// The string in quotes, escaped and cut to a readable length.
pub(crate) fn quote(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// A key as part of a field's path: as it is if it is a plain name, else quoted.
pub(crate) fn step(key: &str) -> String {
    let plain = !key.is_empty()
        && key.len() <= SHOWN
        && key.chars().all(|character| character.is_alphanumeric() || character == '_');
    if plain { key.to_owned() } else { quote(key) }
}

/// A JSON value's type in words.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
