//! vLLM's classification: `{model, input, use_activation, labels}`.

use dikast_core::request::{ClassifyRequest, Json};

use super::failure::Failure;
use super::fields::{a_map, flag, present, strings};
use super::json::{count, list, object};
use super::labels::{LabelCall, mode, model, requests, texts, truncation};
use super::number::rounded;

/// A call over the body's `labels`, an extension, or the server's own. `probs` are probabilities, or logits if
/// `use_activation` is false.
pub(crate) fn call(body: &Json, own: &[String]) -> Result<LabelCall, Failure> {
    a_map(body)?;
    let input = present(body, "input").ok_or_else(|| Failure::invalid("input", "missing"))?;
    let (texts, _) = texts("input", input)?;
    let labels = match present(body, "labels") {
        Some(labels) => strings("labels", labels)?,
        None if own.is_empty() => return Err(Failure::no_labels()),
        None => own.to_vec(),
    };
    let activation = flag(body, "use_activation")?.or(flag(body, "activation")?).unwrap_or(true);
    let cut = flag(body, "truncate")?.unwrap_or(false);
    let with = |request| ClassifyRequest { mode: mode(false), truncation: truncation(cut), ..request };
    Ok(LabelCall {
        model: model(body)?,
        requests: requests(texts, &labels, with)?,
        respond: Box::new(move |answers, told| {
            let tokens: u64 = answers.iter().map(|a| a.receipt.tokens).sum();
            let one = |(i, answer): (usize, &dikast_core::answers::Classification)| {
                let best = answer.ranked(Some(1)).first().map_or("", |s| s.label.as_str()).to_owned();
                let probs = answer.scores.iter().map(|s| {
                    let value = if activation { s.score } else { s.logit.unwrap_or(s.score) };
                    rounded(f64::from(value), told.decimals)
                });
                object([
                    ("index", count(i)),
                    ("label", best.into()),
                    ("probs", list(probs)),
                    ("num_classes", count(answer.scores.len())),
                ])
            };
            object([
                ("id", format!("classify-{}", told.request_id).into()),
                ("object", "list".into()),
                ("created", count(told.now)),
                ("model", told.model.as_str().into()),
                ("data", list(answers.iter().enumerate().map(one))),
                (
                    "usage",
                    object([
                        ("prompt_tokens", count(tokens)),
                        ("total_tokens", count(tokens)),
                        ("completion_tokens", count(0)),
                    ]),
                ),
            ])
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::super::failure::Kind;
    use super::super::labels::tests::respond;
    use super::*;

    fn read(text: &str, own: &[&str]) -> Result<LabelCall, Failure> {
        let own: Vec<String> = own.iter().map(|&l| l.to_owned()).collect();
        call(&Json::parse(text).expect("JSON"), &own)
    }

    #[test]
    fn probabilities_or_logits() {
        let body = r#"{"input":"t","labels":["a","b"]}"#;
        let expected = concat!(
            r#"{"id":"classify-r","object":"list","created":9,"model":"m","data":[{"index":0,"label":"b","#,
            r#""probs":[0.269,0.731],"num_classes":2}],"usage":{"prompt_tokens":5,"total_tokens":5,"completion_tokens":0}}"#
        );
        assert_eq!(respond(read(body, &[]).expect(body), &[0.0, 1.0]), expected);
        let raw = r#"{"input":["t","u"],"use_activation":false}"#;
        let answer = respond(read(raw, &["x", "y"]).expect(raw), &[-2.0, 1.0]);
        assert!(answer.contains(r#""index":1,"label":"y","probs":[-2.0,1.0]"#), "{answer}");
        assert!(read(r#"{"input":"t"}"#, &[]).is_err_and(|f| f.kind == Kind::NoLabels));
    }
}
