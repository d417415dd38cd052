//! Tokens of texts, and how many tokens a System One request has.

use dikast_core::request::Json;

use super::failure::Failure;
use super::fields::{a_map, present, wrong};
use super::json::{count, list, object};
use super::labels;

/// What is to be counted.
#[derive(Debug, PartialEq)]
pub(crate) enum Asked {
    /// Texts; whether they came as a list.
    Texts(Vec<String>, bool),
    /// A System One body.
    Request(Json),
}

/// `{model, text | texts | prompt | input}`, or a System One body.
pub(crate) fn asked(body: Json) -> Result<(Option<String>, Asked), Failure> {
    a_map(&body)?;
    let model = labels::model(&body)?;
    if present(&body, "state").is_some() {
        return Ok((model, Asked::Request(body)));
    }
    let names = ["text", "texts", "prompt", "input"];
    let Some((name, value)) = names.iter().find_map(|name| Some((*name, present(&body, name)?))) else {
        return Err(Failure::invalid(
            "text",
            "missing; text, a list of texts, or a System One body is needed",
        ));
    };
    match value {
        Json::String(_) | Json::Array(_) => {
            let (texts, list) = labels::texts(name, value)?;
            Ok((model, Asked::Texts(texts, list)))
        }
        other => Err(wrong(name, other, "a string or a list of strings")),
    }
}

/// Ids of each text.
pub(crate) fn tokens(model: &str, most: usize, ids: &[Vec<u32>], batch: bool) -> Json {
    let one = |ids: &Vec<u32>| list(ids.iter().map(|id| count(*id)));
    let total: usize = ids.iter().map(Vec::len).sum();
    object([
        ("model", model.into()),
        ("count", count(total)),
        ("max_model_len", count(most)),
        ("tokens", labels::nested(batch, ids.iter().map(one).collect())),
    ])
}

/// Tokens of a whole request.
pub(crate) fn counted(model: &str, most: usize, tokens: usize) -> Json {
    object([("model", model.into()), ("count", count(tokens)), ("max_model_len", count(most))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_questions_and_answers() {
        let read = |text: &str| asked(Json::parse(text).expect("JSON"));
        assert_eq!(read(r#"{"text":"a"}"#), Ok((None, Asked::Texts(vec!["a".into()], false))));
        let list = Asked::Texts(vec!["a".into(), "b".into()], true);
        assert_eq!(read(r#"{"model":"m","input":["a","b"]}"#), Ok((Some("m".into()), list)));
        assert!(matches!(read(r#"{"state":"a","questions":{}}"#), Ok((None, Asked::Request(_)))));
        assert!(read("{}").is_err() && read(r#"{"text":3}"#).is_err());
        let one = r#"{"model":"m","count":2,"max_model_len":9,"tokens":[1,2]}"#;
        assert_eq!(tokens("m", 9, &[vec![1, 2]], false).to_string(), one);
        let two = r#"{"model":"m","count":2,"max_model_len":9,"tokens":[[1],[2]]}"#;
        assert_eq!(tokens("m", 9, &[vec![1], vec![2]], true).to_string(), two);
    }
}
