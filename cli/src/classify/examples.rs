//! Solved examples: a JSON list, or JSON objects one after another (JSONL).

use serde_json::Value;

use crate::exit::{Failure, Result};
use crate::source;

/// The value of `--examples`, as a JSON list.
pub(crate) fn from_arg(arg: &str) -> Result<Value> {
    let content = source::inline_or_file("--examples", arg)?;
    parse(&content).map_err(|message| Failure::usage(format!("--examples: {message}")))
}

fn parse(content: &str) -> Result<Value, String> {
    let mut examples = Vec::new();
    for value in serde_json::Deserializer::from_str(content).into_iter::<Value>() {
        match value.map_err(|e| format!("not valid JSON: {e}"))? {
            Value::Array(list) => examples.extend(list),
            other => examples.push(other),
        }
    }
    if examples.is_empty() { Err("there are no examples".to_owned()) } else { Ok(Value::Array(examples)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_lines() {
        let one = r#"{"text": "t", "labels": ["a"]}"#;
        let parsed = json!([{"text": "t", "labels": ["a"]}]);
        assert_eq!(parse(one).unwrap(), parsed);
        assert_eq!(parse(&format!("[{one}]")).unwrap(), parsed);
        assert_eq!(parse(&format!("{one}\n\n{one}\n")).unwrap().as_array().unwrap().len(), 2);
        assert!(parse("").is_err());
        assert!(parse("{").unwrap_err().contains("JSON"));
    }
}
