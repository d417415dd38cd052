//! OpenAI's Decisions: `input` and a list of questions.

use dikast_core::answers::{Answer, Decision};
use dikast_core::request::{Confidence, DecideRequest, Json};

use super::contract;
use super::decisions_input::{self, Pictures};
use super::decisions_questions::{self, Asked, Kind};
use super::failure::Failure;
use super::fields::string;
use super::json::{count, list, object};
use super::number::rounded;

/// A request as the core reads it, and what its answer needs that the core does not keep.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Translated {
    /// For the model.
    pub(crate) request: DecideRequest,
    /// One entry a question, in order.
    asked: Vec<Asked>,
}

/// A request; see [`decisions_input::state`] and [`decisions_questions::read`] for what becomes what.
pub(crate) fn request(mut body: Json, confidence: Confidence) -> Result<Translated, Failure> {
    contract::sniff(&body)?;
    let model = match body.get("model") {
        None | Some(Json::Null) => None,
        Some(model) => Some(string("model", model)?.to_owned()),
    };
    let mut pictures = Pictures::default();
    let input = super::json::take(&mut body, "input").unwrap_or(Json::Null);
    let state = decisions_input::state(input, &mut pictures)?;
    let questions = body.get("questions").unwrap_or(&Json::Null);
    let (questions, asked) = decisions_questions::read(questions, &mut pictures)?;
    // The core reads pictures from JSON, under its limits of count and bytes.
    let images = list(pictures.urls.into_iter().map(Json::from));
    let media = object([
        ("state", "".into()),
        ("questions", object([("q", object([("type", "noul".into())]))])),
        ("images", images),
    ]);
    let mut request = DecideRequest::from_tree(media, &dikast_core::request::Rules::default())?;
    request.model = model;
    request.state = state;
    request.questions = questions;
    request.confidence = confidence;
    request.validate()?;
    Ok(Translated { request, asked })
}

/// The response: answers in the order of the questions.
pub(crate) fn response(decision: &Decision, asked: &Translated, model: &str, decimals: u8) -> Json {
    let pairs = decision.answers.iter().zip(&asked.asked);
    let tokens = decision.receipt.tokens;
    object([
        ("model", model.into()),
        ("answers", list(pairs.map(|((_, answer), asked)| answered(answer, asked, decimals)))),
        (
            "usage",
            object([
                ("input_tokens", count(tokens)),
                (
                    "input_tokens_details",
                    object([("cached_tokens", count(0)), ("cache_write_tokens", count(0))]),
                ),
                ("output_tokens", count(0)),
                ("output_tokens_details", object([("reasoning_tokens", count(0))])),
                ("total_tokens", count(tokens)),
            ]),
        ),
    ])
}

fn answered(answer: &Answer, asked: &Asked, decimals: u8) -> Json {
    let name = asked.name.clone().map_or(Json::Null, Json::from);
    let number = |value: f64| rounded(value, decimals);
    match (answer, &asked.kind) {
        (Answer::Choice { choice, confidence, probabilities }, Kind::Choice(values)) => {
            let value = |i: usize| values.get(i).cloned().unwrap_or(Json::Null);
            let all = probabilities.iter().enumerate();
            let all = all.map(|(i, (_, p))| object([("value", value(i)), ("probability", number(*p))]));
            object([
                ("type", "choice".into()),
                ("name", name),
                ("choice", value(*choice)),
                ("confidence", number(*confidence)),
                ("probabilities", list(all)),
            ])
        }
        (Answer::Score { score, confidence, probabilities, .. }, Kind::Score(labels)) => {
            let all = probabilities.iter().zip(labels).enumerate().map(|(i, (p, label))| {
                object([("value", count(i)), ("label", label.as_str().into()), ("probability", number(*p))])
            });
            object([
                ("type", "score".into()),
                ("name", name),
                ("score", number(*score)),
                ("confidence", number(*confidence)),
                ("probabilities", list(all)),
            ])
        }
        (Answer::Noul { probability }, _) => {
            object([("type", "predicate".into()), ("name", name), ("probability", number(*probability))])
        }
        // An answer always has its question's type.
        (other, _) => other.to_json(Some(decimals)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dikast_core::answers::DecideReceipt;

    fn read(text: &str) -> Result<Translated, Failure> {
        request(Json::parse(text).expect("JSON"), Confidence::default())
    }

    #[test]
    fn wrong_fields_are_named() {
        for (body, field) in [
            (
                r#"{"input":"x","questions":[{"type":"choice","choices":[{"value":"a"}]}]}"#,
                "questions.0.choices",
            ),
            (r#"{"input":"x","questions":[]}"#, "questions"),
            (r#"{"input":"x","questions":[{"type":"predicate"}]}"#, "questions.0.instructions"),
            (r#"{"input":"x","questions":[{"type":"noul","instructions":"?"}]}"#, "questions.0.type"),
            (
                r#"{"input":"x","questions":[{"type":"score","levels":[{"label":"a"}]}]}"#,
                "questions.0.levels",
            ),
            (
                r#"{"input":[{"role":"robot","content":"x"}],"questions":[{"type":"predicate","instructions":"?"}]}"#,
                "input.0.role",
            ),
            (
                r#"{"input":[{"type":"function_call_output","call_id":"c","output":"x"}],"questions":[{"type":"predicate","instructions":"?"}]}"#,
                "input.0.call_id",
            ),
            (r#"{"model":3,"input":"x","questions":[{"type":"predicate","instructions":"?"}]}"#, "model"),
        ] {
            assert_eq!(read(body).expect_err(body).field.as_deref(), Some(field), "{body}");
        }
    }

    #[test]
    fn answers_keep_the_types_of_their_values() {
        let body = r#"{"model":"m","input":"x","questions":[
            {"type":"choice","name":"c","choices":[{"value":true},{"value":false},{"value":"true","description":"d"}]},
            {"type":"score","levels":[{"label":"calm"},{"label":"hot","description":"very"}]},
            {"type":"predicate","name":"","instructions":"?"}]}"#;
        let asked = read(body).expect("a request");
        let ids: Vec<String> = asked.request.questions[0].option_ids();
        assert_eq!(ids, ["true (boolean)", "false", "true"]);
        let names: Vec<&str> = asked.request.questions.iter().map(|q| q.id.as_str()).collect();
        assert_eq!(names, ["c", "q2", "q3"]);
        let choice = Answer::Choice {
            choice: 1,
            confidence: 0.25,
            probabilities: ids.into_iter().zip([0.25, 0.5, 0.25]).collect(),
        };
        let score = Answer::Score {
            score: 0.75,
            confidence: 0.5,
            legend: Vec::new(),
            probabilities: vec![0.25, 0.75],
        };
        let decision = Decision {
            answers: vec![
                ("c".into(), choice),
                ("q2".into(), score),
                ("q3".into(), Answer::Noul { probability: 1.0 / 3.0 }),
            ],
            truncation: None,
            receipt: DecideReceipt { tokens: 7, ..DecideReceipt::default() },
        };
        let expected = concat!(
            r#"{"model":"served","answers":[{"type":"choice","name":"c","choice":false,"confidence":0.25,"probabilities":["#,
            r#"{"value":true,"probability":0.25},{"value":false,"probability":0.5},{"value":"true","probability":0.25}]},"#,
            r#"{"type":"score","name":null,"score":0.75,"confidence":0.5,"probabilities":["#,
            r#"{"value":0,"label":"calm","probability":0.25},{"value":1,"label":"hot","probability":0.75}]},"#,
            r#"{"type":"predicate","name":"","probability":0.333333}],"#,
            r#""usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":0,"#,
            r#""output_tokens_details":{"reasoning_tokens":0},"total_tokens":7}}"#
        );
        assert_eq!(response(&decision, &asked, "served", 6).to_string(), expected);
    }
}
