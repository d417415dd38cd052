//! Typed reading of the fields of a map, with errors that name the field.

use dikast_core::request::Json;

use super::failure::Failure;

/// A field's value; absent and null are the same.
pub(super) fn present<'v>(map: &'v Json, name: &str) -> Option<&'v Json> {
    map.get(name).filter(|value| **value != Json::Null)
}

/// A field's value, which must be there.
pub(super) fn needed<'v>(map: &'v Json, field: &str, name: &str) -> Result<&'v Json, Failure> {
    present(map, name).ok_or_else(|| Failure::invalid(under(field, name), "missing"))
}

/// The path of a field below another; the root has the empty path.
pub(super) fn under(field: &str, name: &str) -> String {
    if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") }
}

/// The value as a string.
pub(super) fn string<'v>(field: &str, value: &'v Json) -> Result<&'v str, Failure> {
    value.as_str().ok_or_else(|| wrong(field, value, "a string"))
}

/// The value as a list.
pub(super) fn items<'v>(field: &str, value: &'v Json) -> Result<&'v [Json], Failure> {
    match value {
        Json::Array(items) => Ok(items),
        other => Err(wrong(field, other, "a list")),
    }
}

/// The value as a list of strings.
pub(super) fn strings(field: &str, value: &Json) -> Result<Vec<String>, Failure> {
    let items = items(field, value)?.iter().enumerate();
    items.map(|(i, item)| Ok(string(&format!("{field}[{i}]"), item)?.to_owned())).collect()
}

/// An optional flag.
pub(super) fn flag(map: &Json, name: &str) -> Result<Option<bool>, Failure> {
    match present(map, name) {
        None => Ok(None),
        Some(Json::Bool(value)) => Ok(Some(*value)),
        Some(other) => Err(wrong(name, other, "a boolean")),
    }
}

/// Refuses what is no map.
pub(super) fn a_map(body: &Json) -> Result<(), Failure> {
    match body {
        Json::Object(_) => Ok(()),
        other => Err(wrong("request", other, "a map")),
    }
}

/// Refuses more than `most`.
pub(super) fn at_most(field: &str, unit: &str, found: usize, most: usize) -> Result<(), Failure> {
    if found <= most { Ok(()) } else { Err(Failure::too_many(field, unit, found as u64, most as u64)) }
}

/// The error for a value of another type.
pub(super) fn wrong(field: &str, value: &Json, allowed: &str) -> Failure {
    Failure::invalid(field, format!("{} found, {allowed} is allowed", value.kind()))
}
