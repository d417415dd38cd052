//! Ids, spans and option order of every golden record.

use dikast_core::request::{DecideRequest, Json, Question, QuestionKind};
use dikast_core::tokens::Span;
use serde_json::{Value, json};

use crate::fixture::{PROMPT, cases, expected, prepare};

fn span(span: Span) -> Value {
    json!([span.start, span.end])
}

#[test]
fn every_record_has_the_references_ids_and_spans() {
    let cases = cases();
    assert_eq!(cases.len(), 18);
    for case in cases {
        let (record, expected) = (case.record(), expected(&case.id));
        assert_eq!(json!(record.ids), expected["input_ids"], "{}", case.id);
        assert_eq!(json!(record.tokens()), expected["n_tokens"], "{}", case.id);
        let found: Vec<Value> = record
            .questions
            .iter()
            .zip(&case.request.questions)
            .map(|(slots, question)| {
                json!({
                    "question_id": question.id,
                    "question_type": slots.kind.type_id(),
                    "question_span": span(slots.span),
                    "option_ids": slots.option_ids,
                    "option_spans": slots.options.iter().copied().map(span).collect::<Vec<_>>(),
                })
            })
            .collect();
        let mut questions = expected["questions"].as_array().unwrap().clone();
        for question in &mut questions {
            let question = question.as_object_mut().unwrap();
            question.remove("logits");
            question.remove("probabilities");
        }
        assert_eq!(found, questions, "{}", case.id);
    }
}

#[test]
fn parts_stand_in_order_and_without_gaps() {
    for case in cases() {
        let record = case.record();
        assert_eq!(record.media.start as usize, PROMPT.before().len());
        assert_eq!(record.media.end, record.state.start);
        let mut at = record.state.end;
        for slots in &record.questions {
            for span in [slots.span].iter().chain(&slots.options) {
                assert!(at < span.start && span.start < span.end, "{}", case.id);
                at = span.end;
            }
        }
        assert!((at as usize) < record.ids.len());
    }
}

#[test]
fn an_empty_instruction_is_the_id_but_an_empty_list_is_not() {
    let ids = |instructions: &str| {
        let text = format!(
            r#"{{"state":"s","questions":{{"late":{{"type":"noul","instructions":{instructions}}}}}}}"#
        );
        prepare(&DecideRequest::from_json(text).unwrap()).unwrap().ids
    };
    let by_id = ids("\"late\"");
    assert_eq!((ids("null"), ids("\"\"")), (by_id.clone(), by_id.clone()));
    assert_ne!(ids("[]"), by_id);
    assert_ne!(ids("{}"), by_id);
}

#[test]
fn a_null_side_describes_nothing_and_replaces_the_default() {
    let ids = |criteria: &str| {
        let text = format!(r#"{{"state":"s","questions":{{"q":{{"type":"noul","criteria":{criteria}}}}}}}"#);
        let record = prepare(&DecideRequest::from_json(text).unwrap()).unwrap();
        let Span { start, end } = record.questions[0].options[0];
        record.ids[start as usize..end as usize].to_vec()
    };
    assert_eq!(ids("{\"true\":null}"), PROMPT.tokenizer().ids("{\"option_id\":\"true\"}").unwrap());
    let by_default =
        "{\"description\":\"The proposition is true or the answer is yes.\",\"option_id\":\"true\"}";
    for criteria in ["null", "{}", "{\"false\":\"no\"}"] {
        assert_eq!(ids(criteria), PROMPT.tokenizer().ids(by_default).unwrap(), "{criteria}");
    }
}

#[test]
fn the_limits_at_their_edges_are_read() {
    let noul = |i: usize| Question::noul(format!("q{i}"), "yes?");
    for questions in [1, 64] {
        let record = prepare(&DecideRequest::new("s", (0..questions).map(noul).collect())).unwrap();
        assert_eq!(record.questions.len(), questions);
    }
    for options in [1, 2, 255] {
        let all = (0..options).map(|i| (format!("o{i}"), Json::Null));
        let record = prepare(&DecideRequest::new("s", vec![Question::choice("q", "which?", all)])).unwrap();
        let slots = &record.questions[0];
        assert_eq!((slots.kind, slots.options.len()), (QuestionKind::Choice, options));
        assert!(slots.option_ids.is_sorted());
    }
    let levels = (0..10).map(|i| Json::from(format!("level {i}")));
    let record = prepare(&DecideRequest::new("s", vec![Question::score("q", "how?", levels)])).unwrap();
    let numbers = Vec::from_iter((0..10).map(|i| i.to_string()));
    assert_eq!(record.questions[0].option_ids, numbers);
}
