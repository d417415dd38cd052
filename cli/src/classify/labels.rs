//! Labels as people write them: `a,b,c`, JSON, or `@FILE` with JSON or one label a line.

use dikast_core::request::parse_json;
use serde_json::Value;

use crate::exit::{Failure, Result};
use crate::source;

/// The labels of all `--labels` arguments, as JSON.
pub(crate) fn from_args(args: &[String]) -> Result<Value> {
    let wrong = |message: String| Failure::usage(format!("--labels: {message}"));
    let mut sets = Vec::with_capacity(args.len());
    for arg in args {
        let content = source::inline_or_file("--labels", arg)?;
        let separator = if arg.starts_with('@') { '\n' } else { ',' };
        sets.push(parse(&content, separator).map_err(wrong)?);
    }
    join(sets).map_err(wrong)
}

/// The labels of a CSV cell: as on the command line, but never a file.
pub(crate) fn from_cell(cell: &str) -> Result<Value, String> {
    parse(cell, ',')
}

fn parse(content: &str, separator: char) -> Result<Value, String> {
    let content = content.trim();
    if content.starts_with(['{', '[']) {
        return parse_json(content).map_err(|e| {
            format!("not valid JSON: {e} (a label that starts with {{ or [ must be written as JSON)")
        });
    }
    let mut labels = Vec::new();
    for label in content.split(separator).map(str::trim) {
        match (label, separator) {
            // Blank lines in a file are harmless; an empty place in a list is a typing mistake.
            ("", '\n') => {}
            ("", _) => return Err("there is an empty label".to_owned()),
            _ => labels.push(Value::from(label)),
        }
    }
    if labels.is_empty() {
        return Err("there are no labels".to_owned());
    }
    Ok(Value::Array(labels))
}

/// Flat lists are joined; a hierarchy stands alone.
fn join(mut sets: Vec<Value>) -> Result<Value, String> {
    if sets.len() == 1 {
        return Ok(sets.remove(0));
    }
    let mut labels = Vec::new();
    for set in sets {
        match set {
            Value::Array(list) => labels.extend(list),
            _ => return Err("a hierarchy must be the only --labels argument".to_owned()),
        }
    }
    Ok(Value::Array(labels))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    fn labels(args: &[&str]) -> Result<Value> {
        from_args(&args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn lists_and_json() {
        assert_eq!(labels(&["a, b c ,d"]).unwrap(), json!(["a", "b c", "d"]));
        assert_eq!(labels(&["a,b", r#"["c, d"]"#]).unwrap(), json!(["a", "b", "c, d"]));
        assert_eq!(labels(&[r#" {"t": ["a"]}"#]).unwrap(), json!({"t": ["a"]}));
    }

    #[test]
    fn mistakes_are_named() {
        for (args, part) in [
            (&["a,,b"][..], "empty label"),
            (&[""], "empty label"),
            (&["{a"], "not valid JSON"),
            (&["a", r#"{"t": ["b"]}"#], "hierarchy"),
            (&["@no/such/file"], "no/such/file"),
        ] {
            let failure = labels(args).unwrap_err();
            assert!(failure.to_string().contains(part), "{failure}");
            assert_eq!(failure.code(), 2);
        }
    }

    #[test]
    fn files_hold_lines_or_json() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("\u{FEFF}one, two\r\n\r\n three \n".as_bytes()).unwrap();
        assert_eq!(labels(&[&format!("@{}", file.path().display())]).unwrap(), json!(["one, two", "three"]));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(br#"{"x": ["y"]}"#).unwrap();
        assert_eq!(labels(&[&format!("@{}", file.path().display())]).unwrap(), json!({"x": ["y"]}));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(labels(&[&format!("@{}", file.path().display())]).is_err());
    }

    #[test]
    fn a_cell_never_names_a_file() {
        assert_eq!(from_cell("@secret").unwrap(), json!(["@secret"]));
    }
}
