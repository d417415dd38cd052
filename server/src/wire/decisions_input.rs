//! The `input` of a Decisions body, and its lists of parts.

use dikast_core::request::{Json, picture_marker};

use super::failure::Failure;
use super::fields::{at_most, items, needed, present, string, wrong};
use super::json::object;

/// Levels of nesting of an `input_json` part.
const JSON_LEVELS: usize = 32;
/// Values of an `input_json` part.
const JSON_VALUES: usize = 10_000;
/// Bytes of an `input_json` part as compact text.
const JSON_BYTES: usize = 256 << 10;

/// Pictures in order of appearance.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    /// Their `data:` URLs.
    pub(super) urls: Vec<String>,
}

/// The state: a string as it is; one user message of one text as that text; anything else as a list of `{role, content}`
/// and of tool items `{type, name, arguments | input | output}`, pictures replaced by `[image N]`.
pub(super) fn state(input: Json, pictures: &mut Pictures) -> Result<Json, Failure> {
    let all = match &input {
        Json::String(_) => return Ok(input),
        other => items("input", other)?,
    };
    if all.is_empty() {
        return Err(Failure::invalid("input", "no items found, at least one is needed"));
    }
    let mut calls: Vec<(&str, &str)> = Vec::new();
    let mut read = Vec::with_capacity(all.len());
    for (i, item) in all.iter().enumerate() {
        read.push(one(&format!("input.{i}"), item, &mut calls, pictures)?);
    }
    let single = match &read[..] {
        [only] if only.get("role").and_then(Json::as_str) == Some("user") => only.get("content").cloned(),
        _ => None,
    };
    match single {
        Some(text @ Json::String(_)) if pictures.urls.is_empty() => Ok(text),
        _ => Ok(Json::Array(read)),
    }
}

fn one<'v>(
    field: &str,
    item: &'v Json,
    calls: &mut Vec<(&'v str, &'v str)>,
    pictures: &mut Pictures,
) -> Result<Json, Failure> {
    if !matches!(item, Json::Object(_)) {
        return Err(wrong(field, item, "a map"));
    }
    let text = |name: &str| string(&format!("{field}.{name}"), needed(item, field, name)?);
    let kind = match present(item, "type") {
        None => "message",
        Some(kind) => string(&format!("{field}.type"), kind)?,
    };
    match kind {
        "message" => message(field, item, pictures),
        "function_call" | "custom_tool_call" => {
            let key = if kind == "function_call" { "arguments" } else { "input" };
            let name = text("name")?;
            calls.push((text("call_id")?, name));
            Ok(object([("type", kind.into()), ("name", name.into()), (key, text(key)?.into())]))
        }
        "function_call_output" | "custom_tool_call_output" => {
            let id = text("call_id")?;
            let Some((_, name)) = calls.iter().rev().find(|(call, _)| *call == id) else {
                return Err(Failure::invalid(format!("{field}.call_id"), "no earlier call has this id"));
            };
            let name = *name;
            let output_field = format!("{field}.output");
            let output = content(&output_field, needed(item, field, "output")?, pictures)?;
            Ok(object([("type", kind.into()), ("name", name.into()), ("output", output)]))
        }
        _ => {
            let message = "an unknown type found; message, function_call, function_call_output, custom_tool_call and \
                           custom_tool_call_output are allowed";
            Err(Failure::invalid(format!("{field}.type"), message))
        }
    }
}

fn message(field: &str, item: &Json, pictures: &mut Pictures) -> Result<Json, Failure> {
    let role_field = format!("{field}.role");
    let role = string(&role_field, needed(item, field, "role")?)?;
    if !["user", "developer", "system", "assistant"].contains(&role) {
        let message = "an unknown role found; user, developer, system and assistant are allowed";
        return Err(Failure::invalid(role_field, message));
    }
    let content = content(&format!("{field}.content"), needed(item, field, "content")?, pictures)?;
    Ok(object([("role", role.into()), ("content", content)]))
}

/// A string, or parts: a single text is that text, others are a list.
fn content(field: &str, value: &Json, pictures: &mut Pictures) -> Result<Json, Failure> {
    if let Json::String(_) = value {
        return Ok(value.clone());
    }
    let mut read = parts(field, value, pictures)?;
    let single = read.len() == 1 && matches!(read[0], Json::String(_));
    Ok(if single { read.remove(0) } else { Json::Array(read) })
}

/// Instructions: a string, or parts joined by blank lines, JSON as compact text.
pub(super) fn instructions(field: &str, value: &Json, pictures: &mut Pictures) -> Result<Json, Failure> {
    if let Json::String(_) = value {
        return Ok(value.clone());
    }
    let texts = parts(field, value, pictures)?.into_iter().map(|part| match part {
        Json::String(text) => text,
        other => other.to_sorted_text(),
    });
    Ok(texts.collect::<Vec<_>>().join("\n\n").into())
}

fn parts(field: &str, value: &Json, pictures: &mut Pictures) -> Result<Vec<Json>, Failure> {
    let all = match value {
        Json::Array(items) => items,
        other => return Err(wrong(field, other, "a string or a list of parts")),
    };
    if all.is_empty() {
        return Err(Failure::invalid(field, "no parts found, at least one is needed"));
    }
    all.iter().enumerate().map(|(i, part)| one_part(&format!("{field}.{i}"), part, pictures)).collect()
}

fn one_part(field: &str, part: &Json, pictures: &mut Pictures) -> Result<Json, Failure> {
    let text = |name: &str| string(&format!("{field}.{name}"), needed(part, field, name)?);
    match text("type")? {
        "input_text" | "output_text" | "text" => Ok(text("text")?.into()),
        "refusal" => Ok(text("refusal")?.into()),
        "input_json" => {
            let data = needed(part, field, "data")?;
            let field = format!("{field}.data");
            check_json(&field, data)?;
            Ok(data.clone())
        }
        "input_image" => {
            pictures.urls.push(text("image_url")?.to_owned());
            Ok(picture_marker(pictures.urls.len()).into())
        }
        _ => {
            let message = "an unknown type found; input_text, input_json, input_image, output_text and refusal are allowed";
            Err(Failure::invalid(format!("{field}.type"), message))
        }
    }
}

fn check_json(field: &str, data: &Json) -> Result<(), Failure> {
    let objects = match data {
        Json::Object(_) => true,
        Json::Array(items) => items.iter().all(|item| matches!(item, Json::Object(_))),
        _ => false,
    };
    if !objects {
        return Err(wrong(field, data, "a map or a list of maps"));
    }
    let (levels, values) = measured(data);
    at_most(field, "levels", levels, JSON_LEVELS)?;
    at_most(field, "values", values, JSON_VALUES)?;
    at_most(field, "bytes as compact JSON", data.to_string().len(), JSON_BYTES)
}

/// Levels and values. The parser limits the depth.
fn measured(value: &Json) -> (usize, usize) {
    let inner: Vec<&Json> = match value {
        Json::Array(items) => items.iter().collect(),
        Json::Object(entries) => entries.iter().map(|(_, value)| value).collect(),
        _ => return (0, 1),
    };
    inner.into_iter().map(measured).fold((1, 1), |all, one| (all.0.max(one.0 + 1), all.1 + one.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, Vec<String>), Failure> {
        let mut pictures = Pictures::default();
        let state = state(Json::parse(text).expect("JSON"), &mut pictures)?;
        Ok((state.to_string(), pictures.urls))
    }

    #[test]
    fn inputs_become_states() {
        let none: Vec<String> = Vec::new();
        for (input, expected) in [
            (r#""plain""#, r#""plain""#),
            (r#"[{"role":"user","content":"one"}]"#, r#""one""#),
            (r#"[{"role":"user","content":[{"type":"input_text","text":"one"}]}]"#, r#""one""#),
            (r#"[{"role":"system","content":"s"}]"#, r#"[{"role":"system","content":"s"}]"#),
            (
                r#"[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_json","data":{"k":1}}]}]"#,
                r#"[{"role":"user","content":["a",{"k":1}]}]"#,
            ),
            (
                r#"[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"o"}]"#,
                r#"[{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","name":"f","output":"o"}]"#,
            ),
            (
                r#"[{"role":"assistant","phase":"x","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"no"}]}]"#,
                r#"[{"role":"assistant","content":["a","no"]}]"#,
            ),
        ] {
            assert_eq!(read(input), Ok((expected.to_owned(), none.clone())), "{input}");
        }
    }

    #[test]
    fn pictures_leave_their_number() {
        let input =
            r#"[{"role":"user","content":[{"type":"input_image","image_url":"data:a","detail":"low"}]}]"#;
        let expected = (r#"[{"role":"user","content":"[image 1]"}]"#.to_owned(), vec!["data:a".to_owned()]);
        assert_eq!(read(input), Ok(expected));
    }

    #[test]
    fn json_parts_are_limited() {
        let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(32), "]".repeat(32));
        let wide = format!(r#"{{"a":[{}1]}}"#, "1,".repeat(10_000));
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(256 << 10));
        for (data, unit) in [(&*deep, "levels"), (&*wide, "values"), (&*long, "bytes"), ("3", "a map")] {
            let input = format!(r#"[{{"role":"user","content":[{{"type":"input_json","data":{data}}}]}}]"#);
            assert!(read(&input).is_err_and(|f| f.message.contains(unit)), "{unit}");
        }
    }
}
