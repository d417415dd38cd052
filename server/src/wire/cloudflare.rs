//! The envelope of Workers AI.

use dikast_core::request::Json;

use super::json::{count, list, object};

/// An answer in its envelope.
pub(crate) fn answered(result: Json) -> Json {
    envelope(result, true, Vec::new())
}

/// A refusal in its envelope.
pub(crate) fn refused(code: i64, message: &str) -> Json {
    let error = object([("code", count(code)), ("message", message.into())]);
    envelope(Json::Null, false, vec![error])
}

fn envelope(result: Json, success: bool, errors: Vec<Json>) -> Json {
    object([
        ("result", result),
        ("success", success.into()),
        ("errors", Json::Array(errors)),
        ("messages", list([])),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let good = r#"{"result":{"a":1},"success":true,"errors":[],"messages":[]}"#;
        assert_eq!(answered(object([("a", count(1))])).to_string(), good);
        let bad = r#"{"result":null,"success":false,"errors":[{"code":5012,"message":"m"}],"messages":[]}"#;
        assert_eq!(refused(5012, "m").to_string(), bad);
    }
}
