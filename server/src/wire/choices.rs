//! Choices of System One on a model that judges labels.

use dikast_core::answers::{Answer, Classification, DecideReceipt, Decision};
use dikast_core::request::limits::MAX_RENDERED_BYTES;
use dikast_core::request::{ClassifyRequest, Criteria, DecideRequest, Json, LabelSet, Mode, StateTruncation};
use dikast_core::tokens::clef::render;

use super::failure::Failure;
use super::labels::{checked, truncation};

/// One request a question: the state as text, the options as labels that compete, each as `name` or `name: description`.
///
/// The instructions are not read: such a model has no place for them. Questions of other types, and media, are refused.
pub(crate) fn requests(request: &DecideRequest) -> Result<Vec<ClassifyRequest>, Failure> {
    if !request.images.is_empty() || !request.videos.is_empty() {
        let field = if request.images.is_empty() { "videos" } else { "images" };
        return Err(Failure::invalid(field, "this model reads text alone"));
    }
    let text = render(&request.state);
    // Each question gets the text again.
    if text.len().saturating_mul(request.questions.len()) > MAX_RENDERED_BYTES {
        return Err(Failure::too_large("state times questions", MAX_RENDERED_BYTES as u64));
    }
    let one = |question: &dikast_core::request::Question| match &question.criteria {
        Criteria::Choice(options) => {
            let label = |(name, description): &(String, Json)| match description {
                Json::Null => name.clone(),
                other => format!("{name}: {}", render(other)),
            };
            checked(ClassifyRequest {
                mode: Mode::SingleLabel,
                truncation: truncation(request.truncation == StateTruncation::End),
                ..ClassifyRequest::new(text.clone(), LabelSet::flat(options.iter().map(label)))
            })
        }
        _ => {
            let message = "this model answers choices alone; choice is allowed";
            Err(Failure::invalid(format!("questions.{}.type", question.id), message))
        }
    };
    request.questions.iter().map(one).collect()
}

/// The answers as a decision.
pub(crate) fn decision(request: &DecideRequest, answers: &[Classification]) -> Decision {
    let one = |(question, answer): (&dikast_core::request::Question, &Classification)| {
        let probabilities =
            question.option_ids().into_iter().zip(answer.scores.iter().map(|s| f64::from(s.score)));
        (question.id.clone(), Answer::choice(probabilities.collect(), request.confidence))
    };
    let first = answers.first().map(|answer| &answer.receipt);
    Decision {
        answers: request.questions.iter().zip(answers).map(one).collect(),
        truncation: None,
        receipt: DecideReceipt {
            model: first.map_or_else(String::new, |r| r.model.clone()),
            backend: first.map_or_else(String::new, |r| r.backend.clone()),
            quantization: first.map_or_else(String::new, |r| r.quantization.clone()),
            tokens: answers.iter().map(|a| a.receipt.tokens).sum(),
            dropped_state_tokens: answers.iter().map(|a| a.receipt.dropped_text_tokens).sum(),
            ..DecideReceipt::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::labels::tests::answer;
    use super::super::systemone;
    use super::*;

    fn read(questions: &str) -> DecideRequest {
        let body = format!(r#"{{"state":{{"b":1,"a":"x"}},"questions":{questions}}}"#);
        systemone::request(Json::parse(body).expect("JSON"), Default::default()).expect("a request")
    }

    #[test]
    fn options_become_labels_and_come_back() {
        let request = read(r#"{"q":{"type":"choice","criteria":{"a":null,"b":"text","c":{"k":[1]}}}}"#);
        let labels = requests(&request).expect("labels");
        assert_eq!(labels[0].text, r#"{"a":"x","b":1}"#);
        assert_eq!(labels[0].labels.names(), ["a", "b: text", r#"c: {"k":[1]}"#]);
        let decision = decision(&request, &[answer(&labels[0], &[0.0, 2.0, 0.0])]);
        let Answer::Choice { choice, probabilities, confidence } = &decision.answers[0].1 else {
            panic!("no choice")
        };
        assert_eq!((*choice, probabilities[1].0.as_str()), (1, "b"));
        let sum: f64 = probabilities.iter().map(|(_, p)| p).sum();
        assert!((sum - 1.0).abs() < 1e-6 && *confidence > 0.5);
    }

    #[test]
    fn other_questions_are_refused() {
        let refused = requests(&read(r#"{"q":{"type":"noul"}}"#)).expect_err("refused");
        assert_eq!(
            (refused.field.as_deref(), refused.code),
            (Some("questions.q.type"), "unsupported_question_type")
        );
    }
}
