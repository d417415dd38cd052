//! Pictures that a System One body holds outside `images`: parts of the state, and named assets.

use super::Json;
use super::media::MediaLimits;
use crate::request::validate::at_most;
use crate::{Error, Result};

/// Most places that name one asset: a short name in a long text must not make it many times longer.
const MAX_OCCURRENCES: usize = 1000;

/// What stands in a text for the picture of that number, counted from 1.
pub fn picture_marker(number: usize) -> String {
    format!("[image {number}]")
}

/// Moves pictures of the state and of `assets` behind those of `images`, in that order, and leaves
/// `[image N]` where each was: N counts the request's pictures from 1.
///
/// * State: an item `{"type": "image_url", "image_url": {"url": …}}` at the top level of a list.
/// * Assets: `{"name": {"type": "image", "format": "png", "data_base64": …}}`; each occurrence of the name in a string of the
///   state or of the questions is replaced. An asset that is named nowhere is refused: it would be lost in silence.
///
/// # Errors
/// [`Error::InvalidRequest`] and [`Error::TooLarge`] naming the field.
pub fn gather_pictures(body: &mut Json) -> Result<()> {
    let assets = take(body, "assets");
    let mut images = match take(body, "images") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(images)) => images,
        Some(other) => return Err(wrong("images", &other, "a list")),
    };
    let Json::Object(entries) = body else { return Ok(()) };
    if let Some((_, Json::Array(parts))) = entries.iter_mut().find(|(name, _)| name == "state") {
        for (i, part) in parts.iter_mut().enumerate() {
            if part.get("type").and_then(Json::as_str) == Some("image_url") {
                images.push(url(&format!("state[{i}]"), part)?.into());
                *part = picture_marker(images.len()).into();
            }
        }
    }
    match assets {
        None | Some(Json::Null) => {}
        Some(Json::Object(assets)) => {
            at_most("pictures of assets", assets.len(), MediaLimits::default().images)?;
            for (name, asset) in assets {
                let picture = asset_picture(&format!("assets.{name}"), &asset)?;
                images.push(picture);
                replace(entries, &name, &picture_marker(images.len()))?;
            }
        }
        Some(other) => return Err(wrong("assets", &other, "a map")),
    }
    if !images.is_empty() {
        entries.push(("images".to_owned(), Json::Array(images)));
    }
    Ok(())
}

fn url<'v>(field: &str, part: &'v Json) -> Result<&'v str> {
    let field = format!("{field}.image_url");
    let value = part.get("image_url").ok_or_else(|| Error::invalid(&field, "missing"))?;
    // OpenAI's chat form has a map, some gateways send the string itself.
    match value {
        Json::String(url) => Ok(url),
        other => {
            let field = format!("{field}.url");
            let url = other.get("url").ok_or_else(|| Error::invalid(&field, "missing"))?;
            string(&field, url)
        }
    }
}

fn asset_picture(field: &str, asset: &Json) -> Result<Json> {
    match asset.get("type").and_then(Json::as_str) {
        Some("image") => {}
        _ => return Err(Error::invalid(format!("{field}.type"), "only image is allowed")),
    }
    let format = asset.get("format").and_then(Json::as_str).unwrap_or("png");
    let data = asset.get("data_base64").ok_or_else(|| {
        Error::invalid(format!("{field}.data_base64"), "missing; the picture itself is needed as base64")
    })?;
    let data = string(&format!("{field}.data_base64"), data)?;
    Ok(Json::Object(vec![
        ("content_type".to_owned(), format!("image/{format}").into()),
        ("base64".to_owned(), data.into()),
    ]))
}

fn take(map: &mut Json, key: &str) -> Option<Json> {
    let Json::Object(entries) = map else { return None };
    let at = entries.iter().position(|(name, _)| name == key)?;
    Some(entries.remove(at).1)
}

fn string<'v>(field: &str, value: &'v Json) -> Result<&'v str> {
    value.as_str().ok_or_else(|| wrong(field, value, "a string"))
}

fn wrong(field: &str, value: &Json, allowed: &str) -> Error {
    Error::invalid(field, format!("{} found, {allowed} is allowed", value.kind()))
}

fn replace(entries: &mut [(String, Json)], name: &str, with: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid("assets", "an empty name found, at least one character is needed"));
    }
    let mut found = 0;
    for (key, value) in entries.iter() {
        if key == "state" || key == "questions" {
            found += occurrences(value, name);
        }
    }
    if found == 0 {
        let message = "named nowhere in state and questions, so it would not be read";
        return Err(Error::invalid(format!("assets.{name}"), message));
    }
    at_most(&format!("occurrences of assets.{name}"), found, MAX_OCCURRENCES)?;
    for (key, value) in entries {
        if key == "state" || key == "questions" {
            replace_in(value, name, with);
        }
    }
    Ok(())
}

fn occurrences(value: &Json, name: &str) -> usize {
    match value {
        Json::String(text) => text.matches(name).count(),
        Json::Array(items) => items.iter().map(|item| occurrences(item, name)).sum(),
        Json::Object(entries) => entries.iter().map(|(_, item)| occurrences(item, name)).sum(),
        _ => 0,
    }
}

fn replace_in(value: &mut Json, name: &str, with: &str) {
    match value {
        Json::String(text) if text.contains(name) => *text = text.replace(name, with),
        Json::Array(items) => items.iter_mut().for_each(|item| replace_in(item, name, with)),
        Json::Object(entries) => entries.iter_mut().for_each(|(_, item)| replace_in(item, name, with)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(text: &str) -> Result<String> {
        let mut body = Json::parse(text).expect("JSON");
        gather_pictures(&mut body).map(|()| body.to_string())
    }

    #[test]
    fn parts_of_the_state_become_pictures() {
        let body = r#"{"state":["a",{"type":"image_url","image_url":{"url":"data:x"}},{"type":"image_url","image_url":"data:y"}],"images":["z"]}"#;
        let expected = r#"{"state":["a","[image 2]","[image 3]"],"images":["z","data:x","data:y"]}"#;
        assert_eq!(gathered(body).as_deref(), Ok(expected));
    }

    #[test]
    fn assets_are_replaced_where_they_are_named() {
        let body = r#"{"state":{"t":"see <p> and <p>"},"questions":{"q":{"instructions":["<p>?"]}},"assets":{"<p>":{"type":"image","format":"png","data_base64":"QQ=="}}}"#;
        let expected = r#"{"state":{"t":"see [image 1] and [image 1]"},"questions":{"q":{"instructions":["[image 1]?"]}},"images":[{"content_type":"image/png","base64":"QQ=="}]}"#;
        assert_eq!(gathered(body).as_deref(), Ok(expected));
        let lost = r#"{"state":"x","assets":{"p":{"type":"image","data_base64":"QQ=="}}}"#;
        assert!(matches!(gathered(lost), Err(Error::InvalidRequest { field, .. }) if field == "assets.p"));
        assert!(gathered(r#"{"state":"p","assets":{"p":{"type":"video"}}}"#).is_err());
    }

    #[test]
    fn bodies_without_media_stay_as_they_are() {
        for body in [r#"{"state":"x"}"#, "[]", "3", r#"{"state":["a",{"type":"text"}]}"#] {
            assert_eq!(gathered(body).as_deref(), Ok(body));
        }
    }
}
