//! Short ways to write the core's JSON values.

use dikast_core::request::Json;

/// A map in the given order.
pub(crate) fn object<const N: usize>(entries: [(&str, Json); N]) -> Json {
    Json::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A list.
pub(crate) fn list(items: impl IntoIterator<Item = Json>) -> Json {
    Json::Array(items.into_iter().collect())
}

/// A whole number.
pub(crate) fn count(value: impl TryInto<i64>) -> Json {
    Json::from(value.try_into().unwrap_or(i64::MAX))
}

/// Adds an entry to a map.
pub(crate) fn push(map: &mut Json, key: &str, value: Json) {
    if let Json::Object(entries) = map {
        entries.push((key.to_owned(), value));
    }
}

/// Removes an entry of a map.
pub(crate) fn take(map: &mut Json, key: &str) -> Option<Json> {
    let Json::Object(entries) = map else { return None };
    let at = entries.iter().position(|(name, _)| name == key)?;
    Some(entries.remove(at).1)
}
