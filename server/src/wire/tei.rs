//! Text Embeddings Inference: `{inputs, truncate, raw_scores}` over the server's own labels.

use dikast_core::request::{ClassifyRequest, Json};

use super::failure::Failure;
use super::fields::{a_map, flag, present, string, wrong};
use super::json::{list, object};
use super::labels::{LabelCall, MAX_TEXTS, mode, model, nested, requests, truncation};
use super::number::rounded;
use super::{fields, zero_shot};

/// A call over `labels`, or in the zero-shot form if the body has labels of its own. A list of strings is a batch; a pair of
/// texts is refused.
pub(crate) fn call(body: &Json, labels: &[String]) -> Result<LabelCall, Failure> {
    a_map(body)?;
    if zero_shot::is_zero_shot(body) {
        return zero_shot::call(body);
    }
    if labels.is_empty() {
        return Err(Failure::no_labels());
    }
    let inputs = present(body, "inputs").ok_or_else(|| Failure::invalid("inputs", "missing"))?;
    let (texts, batch) = texts(inputs)?;
    let cut = flag(body, "truncate")?.unwrap_or(false);
    match present(body, "truncation_direction")
        .map(|value| string("truncation_direction", value))
        .transpose()?
    {
        None | Some("right" | "Right") => {}
        Some(_) => return Err(Failure::invalid("truncation_direction", "only right is allowed")),
    }
    let raw = flag(body, "raw_scores")?.unwrap_or(false);
    let with = |request| ClassifyRequest { mode: mode(false), truncation: truncation(cut), ..request };
    Ok(LabelCall {
        model: model(body)?,
        requests: requests(texts, labels, with)?,
        respond: Box::new(move |answers, told| {
            let one = |answer: &dikast_core::answers::Classification| {
                list(answer.ranked(None).into_iter().map(|s| {
                    let score = if raw { s.logit.unwrap_or(s.score) } else { s.score };
                    object([
                        ("score", rounded(f64::from(score), told.decimals)),
                        ("label", s.label.as_str().into()),
                    ])
                }))
            };
            nested(batch, answers.iter().map(one).collect())
        }),
    })
}

/// A string, a list of strings, or a list of lists of one string each.
fn texts(inputs: &Json) -> Result<(Vec<String>, bool), Failure> {
    let Json::Array(items) = inputs else { return super::labels::texts("inputs", inputs) };
    if !items.iter().any(|item| matches!(item, Json::Array(_))) {
        return super::labels::texts("inputs", inputs);
    }
    fields::at_most("inputs", "texts", items.len(), MAX_TEXTS)?;
    let mut texts = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let field = format!("inputs[{i}]");
        match item {
            Json::Array(inner) => match &inner[..] {
                [Json::String(text)] => texts.push(text.clone()),
                [_, _] => {
                    return Err(Failure::invalid(
                        field,
                        "a pair found; this model judges single texts, so one is allowed",
                    ));
                }
                _ => {
                    return Err(Failure::invalid(
                        field,
                        format!("{} items found, one text is allowed", inner.len()),
                    ));
                }
            },
            Json::String(text) => texts.push(text.clone()),
            other => return Err(wrong(&field, other, "a string or a list of one string")),
        }
    }
    Ok((texts, true))
}

#[cfg(test)]
mod tests {
    use super::super::failure::Kind;
    use super::super::labels::tests::respond;
    use super::*;

    fn read(text: &str) -> Result<LabelCall, Failure> {
        call(&Json::parse(text).expect("JSON"), &["a".to_owned(), "b".to_owned()])
    }

    #[test]
    fn a_list_of_texts_is_a_batch() {
        let one = r#"[{"score":0.731,"label":"b"},{"score":0.269,"label":"a"}]"#;
        for (body, count) in [
            (r#"{"inputs":["t","u"]}"#, Some(2)),
            (r#"{"inputs":[["t"],["u"]]}"#, Some(2)),
            (r#"{"inputs":["t"]}"#, Some(1)),
            (r#"{"inputs":"t"}"#, None),
        ] {
            let expected = match count {
                Some(n) => format!("[{}]", vec![one; n].join(",")),
                None => one.to_owned(),
            };
            assert_eq!(respond(read(body).expect(body), &[0.0, 1.0]), expected, "{body}");
        }
        let raw = respond(read(r#"{"inputs":"t","raw_scores":true}"#).expect("read"), &[-0.5, 1.0]);
        assert_eq!(raw, r#"[{"score":1.0,"label":"b"},{"score":-0.5,"label":"a"}]"#);
    }

    #[test]
    fn pairs_and_missing_labels_are_refused() {
        assert!(read(r#"{"inputs":[["a","b"]]}"#).is_err_and(|f| f.message.contains("pair")));
        let none = call(&Json::parse(r#"{"inputs":"a"}"#).expect("JSON"), &[]);
        assert!(none.is_err_and(|f| f.kind == Kind::NoLabels));
        let own = r#"{"inputs":"a","parameters":{"candidate_labels":["x"]}}"#;
        assert!(call(&Json::parse(own).expect("JSON"), &[]).is_ok());
    }
}
