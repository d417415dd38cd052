//! GLiClass serve: `{texts | text, labels, threshold, multi_label, examples, prompt}`.

use dikast_core::request::{ClassifyRequest, Example, Json, LabelSet};

use super::failure::Failure;
use super::fields::{a_map, at_most, flag, items, needed, present, string, strings, wrong};
use super::labels::{LabelCall, checked, mode, model, nested, requests, scored, texts, truncation};

/// A call. `texts` is answered by a list of lists, `text` by a flat list.
///
/// Multi-label: the labels with `score >= threshold`, best first. Single-label: exactly one.
pub(crate) fn call(body: &Json) -> Result<LabelCall, Failure> {
    a_map(body)?;
    if let Some(adapter) = present(body, "adapter_id") {
        return Err(Failure::unknown_model(string("adapter_id", adapter)?, "no adapters"));
    }
    let (texts, batch) = match (present(body, "texts"), present(body, "text")) {
        (Some(_), Some(_)) => {
            return Err(Failure::invalid("text", "texts is given as well; one of the two is enough"));
        }
        (Some(all), None) => (texts("texts", all)?.0, true),
        (None, Some(one)) => {
            let (all, batch) = texts("text", one)?;
            (all, batch)
        }
        (None, None) => return Err(Failure::invalid("texts", "missing; texts or text is needed")),
    };
    let common = common(body)?;
    let prompts = prompts(body, texts.len())?;
    let labels = needed(body, "", "labels")?;
    let mut requests = match labels {
        Json::Array(lists) if lists.iter().any(|item| matches!(item, Json::Array(_))) => {
            if lists.len() != texts.len() {
                let message = format!(
                    "{} lists found for {} texts; one list a text is allowed",
                    lists.len(),
                    texts.len()
                );
                return Err(Failure::invalid("labels", message));
            }
            let each = texts.into_iter().zip(lists).enumerate();
            each.map(|(i, (text, labels))| {
                let labels = LabelSet::flat(strings(&format!("labels[{i}]"), labels)?);
                checked(common.apply(ClassifyRequest::new(text, labels)))
            })
            .collect::<Result<Vec<_>, _>>()?
        }
        other => requests(texts, &strings("labels", other)?, |request| common.apply(request))?,
    };
    for (request, prompt) in requests.iter_mut().zip(prompts) {
        request.prompt = prompt;
        request.validate()?;
    }
    Ok(LabelCall {
        model: model(body)?,
        requests,
        respond: Box::new(move |answers, told| {
            let one = |answer: &dikast_core::answers::Classification| {
                let mut chosen = answer.predictions();
                chosen.sort_by(|a, b| b.score.total_cmp(&a.score));
                scored(&chosen, told.decimals)
            };
            nested(batch, answers.iter().map(one).collect())
        }),
    })
}

/// What all texts share.
struct Common {
    threshold: f32,
    multi_label: bool,
    examples: Vec<Example>,
    truncate: bool,
}

impl Common {
    fn apply(&self, request: ClassifyRequest) -> ClassifyRequest {
        ClassifyRequest {
            threshold: self.threshold,
            mode: mode(self.multi_label),
            examples: self.examples.clone(),
            truncation: truncation(self.truncate),
            ..request
        }
    }
}

fn common(body: &Json) -> Result<Common, Failure> {
    let threshold = match present(body, "threshold") {
        None => 0.5,
        Some(value) => value.as_f64().ok_or_else(|| wrong("threshold", value, "a number in 0..=1"))?,
    };
    if !(0.0..=1.0).contains(&threshold) {
        return Err(Failure::invalid(
            "threshold",
            format!("{threshold} found, a number in 0..=1 is allowed"),
        ));
    }
    let examples = match present(body, "examples") {
        None => Vec::new(),
        Some(value) => {
            let all = items("examples", value)?;
            // Each text gets the examples again.
            at_most("examples", "examples", all.len(), dikast_core::request::limits::MAX_EXAMPLES)?;
            all.iter()
                .enumerate()
                .map(|(i, item)| example(&format!("examples[{i}]"), item))
                .collect::<Result<_, _>>()?
        }
    };
    Ok(Common {
        threshold: threshold as f32,
        multi_label: flag(body, "multi_label")?.unwrap_or(true),
        examples,
        truncate: flag(body, "truncate")?.unwrap_or(false),
    })
}

fn example(field: &str, item: &Json) -> Result<Example, Failure> {
    if !matches!(item, Json::Object(_)) {
        return Err(wrong(field, item, "a map with text and labels"));
    }
    let text = string(&format!("{field}.text"), needed(item, field, "text")?)?;
    let labels = match present(item, "labels").or_else(|| present(item, "true_labels")) {
        None => return Err(Failure::invalid(format!("{field}.labels"), "missing")),
        Some(Json::String(label)) => vec![label.clone()],
        Some(other) => strings(&format!("{field}.labels"), other)?,
    };
    Ok(Example { text: text.to_owned(), labels })
}

fn prompts(body: &Json, texts: usize) -> Result<Vec<Option<String>>, Failure> {
    match present(body, "prompt") {
        None => Ok(vec![None; texts]),
        Some(Json::String(prompt)) => {
            at_most("prompt", "bytes", prompt.len(), dikast_core::request::limits::MAX_PROMPT_BYTES)?;
            Ok(vec![Some(prompt.clone()); texts])
        }
        Some(other) => {
            let prompts = strings("prompt", other)?;
            if prompts.len() != texts {
                let message = format!(
                    "{} prompts found for {texts} texts; one, or one a text is allowed",
                    prompts.len()
                );
                return Err(Failure::invalid("prompt", message));
            }
            Ok(prompts.into_iter().map(Some).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::labels::tests::respond;
    use super::*;

    fn read(text: &str) -> Result<LabelCall, Failure> {
        call(&Json::parse(text).expect("JSON"))
    }

    #[test]
    fn forms_of_answers() {
        for (body, expected) in [
            (
                r#"{"texts":["a","b"],"labels":["x","y"],"threshold":0.0}"#,
                r#"[[{"label":"y","score":0.731},{"label":"x","score":0.5}],[{"label":"y","score":0.731},{"label":"x","score":0.5}]]"#,
            ),
            (r#"{"texts":"a","labels":["x","y"],"threshold":0.6}"#, r#"[[{"label":"y","score":0.731}]]"#),
            (r#"{"text":"a","labels":["x","y"],"threshold":1}"#, "[]"),
            (r#"{"text":"a","labels":["x","y"],"multi_label":false}"#, r#"[{"label":"y","score":0.731}]"#),
            (
                r#"{"texts":["a","b"],"labels":[["x"],["y","z"]],"threshold":0.0}"#,
                r#"[[{"label":"x","score":0.5}],[{"label":"z","score":0.731},{"label":"y","score":0.5}]]"#,
            ),
        ] {
            assert_eq!(respond(read(body).expect(body), &[0.0, 1.0]), expected, "{body}");
        }
    }

    #[test]
    fn every_field_arrives() {
        let body = r#"{"model":"m","texts":["a","b"],"labels":["x"],"prompt":["p","q"],"truncate":true,
            "examples":[{"text":"t","labels":[]}]}"#;
        let call = read(body).expect("a call");
        assert_eq!(call.model.as_deref(), Some("m"));
        assert_eq!(call.requests[1].prompt.as_deref(), Some("q"));
        assert_eq!(call.requests[1].examples.len(), 1);
        assert_eq!(call.requests[0].truncation, truncation(true));
    }

    #[test]
    fn wrong_fields_are_named() {
        for (body, field) in [
            (r#"{"labels":["x"]}"#, "texts"),
            (r#"{"texts":["a","b","c"],"labels":[["x"],["y"]]}"#, "labels"),
            (r#"{"texts":["a"],"labels":[]}"#, "labels"),
            (r#"{"texts":["a"],"labels":"x"}"#, "labels"),
            (r#"{"texts":["a"],"labels":["x"],"threshold":2}"#, "threshold"),
            (r#"{"texts":["a"],"labels":["x"],"prompt":["p","q"]}"#, "prompt"),
            (r#"{"texts":["a"],"labels":["x"],"examples":[{"text":"t"}]}"#, "examples[0].labels"),
            (r#"{"texts":["a"],"labels":["x"],"adapter_id":"z"}"#, "model"),
        ] {
            assert_eq!(read(body).err().and_then(|f| f.field).as_deref(), Some(field), "{body}");
        }
    }
}
