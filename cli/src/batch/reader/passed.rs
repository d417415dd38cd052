//! Fields of a JSONL row that only pass through.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::batch::verbatim::Verbatim;

/// The id and the kept fields, as they are written in `line`. `has` tells whether its object has a field.
pub(super) fn on(
    line: &str,
    has: impl Fn(&String) -> bool,
    id: &String,
    keep: &[String],
) -> (Verbatim, Vec<Verbatim>) {
    let written: HashMap<String, &RawValue> = if std::iter::once(id).chain(keep).any(has) {
        // It was read once already.
        serde_json::from_str(line).unwrap_or_default()
    } else {
        HashMap::new()
    };
    let field = |name: &String| written.get(name).map_or_else(Verbatim::default, |raw| Verbatim::from(*raw));
    (field(id), keep.iter().map(field).collect())
}
