//! Hugging Face zero-shot classification: `{inputs, parameters: {candidate_labels, multi_label, hypothesis_template}}`.

use dikast_core::request::{ClassifyRequest, Json};

use super::failure::Failure;
use super::fields::{a_map, flag, present, string, strings, wrong};
use super::labels::{LabelCall, mode, model, nested, requests, scored, texts, truncation};

/// Whether a body has this form.
pub(crate) fn is_zero_shot(body: &Json) -> bool {
    present(body, "parameters").is_some_and(|parameters| present(parameters, "candidate_labels").is_some())
}

/// A call: all labels of each text by falling score, which sum to 1 unless `multi_label`.
pub(crate) fn call(body: &Json) -> Result<LabelCall, Failure> {
    a_map(body)?;
    let inputs = present(body, "inputs").ok_or_else(|| Failure::invalid("inputs", "missing"))?;
    let (texts, batch) = texts("inputs", inputs)?;
    let parameters = present(body, "parameters").ok_or_else(|| Failure::invalid("parameters", "missing"))?;
    if !matches!(parameters, Json::Object(_)) {
        return Err(wrong("parameters", parameters, "a map"));
    }
    let labels = match present(parameters, "candidate_labels") {
        None => return Err(Failure::invalid("parameters.candidate_labels", "missing")),
        // The older form.
        Some(Json::String(joined)) => joined.split(',').map(|label| label.trim().to_owned()).collect(),
        Some(other) => strings("parameters.candidate_labels", other)?,
    };
    if let Some(template) = present(parameters, "hypothesis_template") {
        let field = "parameters.hypothesis_template";
        if !string(field, template)?.contains("{}") {
            return Err(Failure::invalid(field, "no {} found, which stands for the label"));
        }
    }
    let multi = flag(parameters, "multi_label")?.unwrap_or(false);
    let cut = flag(parameters, "truncate")?.or(flag(body, "truncate")?).unwrap_or(false);
    let with = |request| ClassifyRequest { mode: mode(multi), truncation: truncation(cut), ..request };
    Ok(LabelCall {
        model: model(body)?,
        requests: requests(texts, &labels, with)?,
        respond: Box::new(move |answers, told| {
            nested(batch, answers.iter().map(|a| scored(&a.ranked(None), told.decimals)).collect())
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::super::labels::tests::respond;
    use super::*;

    fn read(text: &str) -> Result<LabelCall, Failure> {
        call(&Json::parse(text).expect("JSON"))
    }

    #[test]
    fn all_labels_by_falling_score() {
        let one = r#"[{"label":"b, c","score":0.731},{"label":"a","score":0.269}]"#;
        let body = r#"{"inputs":"t","parameters":{"candidate_labels":["a","b, c"]}}"#;
        assert_eq!(respond(read(body).expect(body), &[0.0, 1.0]), one);
        let body = r#"{"inputs":["t","u"],"parameters":{"candidate_labels":["a","b, c"],"hypothesis_template":"It is {}."}}"#;
        assert_eq!(respond(read(body).expect(body), &[0.0, 1.0]), format!("[{one},{one}]"));
        let body = r#"{"inputs":"t","parameters":{"candidate_labels":"a, b","multi_label":true}}"#;
        let multi = r#"[{"label":"b","score":0.731},{"label":"a","score":0.5}]"#;
        assert_eq!(respond(read(body).expect(body), &[0.0, 1.0]), multi);
    }

    #[test]
    fn wrong_fields_are_named() {
        for (body, field) in [
            (r#"{"parameters":{"candidate_labels":["a"]}}"#, "inputs"),
            (r#"{"inputs":"t"}"#, "parameters"),
            (r#"{"inputs":"t","parameters":{}}"#, "parameters.candidate_labels"),
            (r#"{"inputs":[],"parameters":{"candidate_labels":["a"]}}"#, "inputs"),
            (
                r#"{"inputs":"t","parameters":{"candidate_labels":["a"],"hypothesis_template":"x"}}"#,
                "parameters.hypothesis_template",
            ),
        ] {
            assert_eq!(read(body).err().and_then(|f| f.field).as_deref(), Some(field), "{body}");
        }
    }
}
