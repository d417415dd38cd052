//! Pictures that come beside the JSON, each named by one asset.

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dikast_core::request::{Json, MediaLimits};

use super::failure::Failure;
use super::fields::string;
use super::json::{push, take};

/// A part of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its name, for example `asset-0`.
    pub(crate) name: String,
    /// The picture's file.
    pub(crate) bytes: Bytes,
}

/// Puts every part into the asset that names it, `{"type": "image", "part": "asset-0"}`, as if it had come as
/// `data_base64`. A part that no asset names is refused, and so is a name without its part: a picture would be lost in silence.
pub(crate) fn attach(body: &mut Json, parts: Vec<Part>) -> Result<(), Failure> {
    let mut parts: Vec<Option<Part>> = parts.into_iter().map(Some).collect();
    if let Json::Object(entries) = body
        && let Some((_, Json::Object(assets))) = entries.iter_mut().find(|(name, _)| name == "assets")
    {
        for (name, asset) in assets {
            let Some(wanted) = take(asset, "part").filter(|part| *part != Json::Null) else { continue };
            let field = format!("assets.{name}.part");
            let wanted = string(&field, &wanted)?;
            let found = parts.iter_mut().find(|part| part.as_ref().is_some_and(|part| part.name == wanted));
            let Some(part) = found.and_then(Option::take) else {
                return Err(Failure::invalid(
                    field,
                    "no part of the body has this name, or another asset has it",
                ));
            };
            let most = MediaLimits::default().image_bytes as u64;
            if part.bytes.len() as u64 > most {
                return Err(Failure::too_large(&format!("assets.{name}"), most));
            }
            take(asset, "data_base64");
            push(asset, "data_base64", STANDARD.encode(&part.bytes).into());
        }
    }
    match parts.iter().flatten().next() {
        None => Ok(()),
        Some(_) => Err(Failure::invalid("assets", "a part of the body found that no asset names")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attached(text: &str, parts: &[&str]) -> Result<String, Failure> {
        let mut body = Json::parse(text).expect("JSON");
        let part = |name: &&str| Part { name: (*name).to_owned(), bytes: Bytes::from_static(b"A") };
        attach(&mut body, parts.iter().map(part).collect()).map(|()| body.to_string())
    }

    #[test]
    fn every_part_finds_its_asset() {
        let body = r#"{"assets":{"p":{"type":"image","part":"asset-0"},"q":{"type":"image","part":"asset-1","data_base64":"no"}}}"#;
        let expected = r#"{"assets":{"p":{"type":"image","data_base64":"QQ=="},"q":{"type":"image","data_base64":"QQ=="}}}"#;
        assert_eq!(attached(body, &["asset-1", "asset-0"]).as_deref(), Ok(expected));
        let inside = r#"{"assets":{"p":{"type":"image","data_base64":"QQ=="}}}"#;
        assert_eq!(attached(inside, &[]).as_deref(), Ok(inside));
    }

    #[test]
    fn nothing_is_lost_in_silence() {
        let one = r#"{"assets":{"p":{"type":"image","part":"a"}}}"#;
        let two = r#"{"assets":{"p":{"type":"image","part":"a"},"q":{"type":"image","part":"a"}}}"#;
        for (body, parts) in
            [(one, &["b"][..]), (one, &["a", "b"]), (one, &[]), (two, &["a"]), ("{}", &["a"]), ("[]", &["a"])]
        {
            assert!(
                attached(body, parts).is_err_and(|f| f.field.is_some_and(|f| f.starts_with("assets"))),
                "{body}"
            );
        }
    }
}
