//! Logits of the goldens → responses of the goldens.

use dikast_core::Error;
use dikast_core::answers::{Answer, DecideOutput, DecideReceipt, Decision, decide};
use dikast_core::request::{Confidence, DecideRequest, Json, Question, StateTruncation};
use dikast_core::tokens::clef::Record;
use serde_json::Value;

use crate::fixture::{Case, cases, expected, golden, prepare};

/// What the reference does: four digits, the largest probability as confidence.
const REFERENCE: DecideOutput = DecideOutput { decimals: Some(4), receipt: false };

fn logits(expected: &Value) -> Vec<Vec<f32>> {
    let row = |question: &Value| {
        question["logits"].as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap() as f32).collect()
    };
    expected["questions"].as_array().unwrap().iter().map(row).collect()
}

fn decision(case: &mut Case, logits: &[Vec<f32>]) -> Decision {
    case.request.confidence = Confidence::Max;
    let receipt = DecideReceipt { model: "clef".to_owned(), ..DecideReceipt::default() };
    decide(&case.request, &case.record(), logits, receipt).unwrap()
}

/// The same texts and keys in the same order; numbers within `tolerance`.
fn near(found: &Json, golden: &Json, tolerance: f64) -> bool {
    match (found, golden) {
        (Json::Float(a), Json::Float(b)) => (a - b).abs() <= tolerance,
        (Json::Object(a), Json::Object(b)) => {
            let same = |(a, b): (&(String, Json), &(String, Json))| a.0 == b.0 && near(&a.1, &b.1, tolerance);
            a.len() == b.len() && a.iter().zip(b).all(same)
        }
        _ => found == golden,
    }
}

#[test]
fn responses_are_the_references() {
    // The logits of `expected.json` and these responses come from two runs of the reference. The second one followed a
    // run in BF16, which had left its rotary frequencies rounded to BF16, so text answers differ in the fourth digit.
    let of = [("text_three", 1e-3), ("json_mixed", 1e-3), ("image_one", 0.0)];
    let pairs = golden("systemone.json");
    assert_eq!(pairs.len(), of.len());
    for (pair, (id, tolerance)) in pairs.iter().zip(of) {
        let mut case = Case::new(id, pair.get("request").unwrap());
        let decision = decision(&mut case, &logits(expected(id)));
        let (found, golden) = (decision.to_json(&REFERENCE), pair.get("response").unwrap());
        assert!(near(&found, golden, tolerance), "{id}: {found}\n{golden}");
    }
}

#[test]
fn every_record_has_the_references_answers() {
    let all = golden("expected.json");
    for (mut case, golden) in cases().into_iter().zip(all) {
        let logits = logits(expected(&case.id));
        let mut decision = decision(&mut case, &logits);
        decision.truncation = None;
        let found = decision.to_json(&REFERENCE);
        assert_eq!(
            found.get("answers").unwrap().to_string(),
            golden.get("answers").unwrap().to_string(),
            "{}",
            case.id
        );
    }
}

fn choice(options: &[&str], logits: &[f32]) -> Answer {
    let options = options.iter().map(|id| ((*id).to_owned(), Json::Null));
    let request = DecideRequest::new("s", vec![Question::choice("q", "which?", options)]);
    let record = prepare(&request).unwrap();
    let decision = decide(&request, &record, &[logits.to_vec()], DecideReceipt::default()).unwrap();
    decision.answers[0].1.clone()
}

#[test]
fn of_equal_options_the_first_of_the_request_wins() {
    // Read as a, b, c.
    match choice(&["c", "a", "b"], &[2.0, 1.0, 2.0]) {
        Answer::Choice { choice, probabilities, .. } => {
            let ids: Vec<&str> = probabilities.iter().map(|(id, _)| id.as_str()).collect();
            assert_eq!((choice, &ids[..]), (0, &["c", "a", "b"][..]));
            assert_eq!(probabilities[0].1, probabilities[1].1);
            assert!(probabilities[2].1 < probabilities[1].1);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_option_is_certain_and_extremes_stay_finite() {
    match choice(&["only"], &[-3.0]) {
        Answer::Choice { choice: 0, confidence, probabilities } => {
            assert_eq!((confidence, probabilities[0].1), (1.0, 1.0));
        }
        other => panic!("{other:?}"),
    }
    match choice(&["a", "b"], &[f32::MAX, f32::MIN]) {
        Answer::Choice { choice: 0, confidence, probabilities } => {
            assert_eq!((confidence, probabilities[0].1, probabilities[1].1), (1.0, 1.0, 0.0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cut_state_is_reported() {
    let mut request = DecideRequest::new("word ".repeat(50), vec![Question::noul("q", "yes?")]);
    request.truncation = StateTruncation::End;
    let state = |request: &DecideRequest| {
        let record = prepare(request).unwrap();
        let decision = decide(request, &record, &[vec![0.0, 0.0]], DecideReceipt::default()).unwrap();
        let json = decision.to_json(&DecideOutput::default());
        let number = |key| json.get(key).and_then(Json::as_f64);
        (json.get("x_truncated").cloned(), number("x_state_tokens"), number("x_state_tokens_used"))
    };
    let (whole, found, used) = state(&request);
    assert_eq!((whole, found), (Some(Json::Bool(false)), used));
    request.max_state_tokens = Some(7);
    assert_eq!(state(&request), (Some(Json::Bool(true)), found, Some(7.0)));
    request.truncation = StateTruncation::Refuse;
    request.max_state_tokens = None;
    assert_eq!(state(&request), (None, None, None));
}

#[test]
fn logits_that_do_not_fit_are_errors() {
    let request = DecideRequest::new("s", vec![Question::noul("mood", "good?")]);
    let record = prepare(&request).unwrap();
    let run = |record: &Record, logits: &[Vec<f32>]| {
        decide(&request, record, logits, DecideReceipt::default()).map(drop)
    };
    for logits in [vec![], vec![vec![0.0]], vec![vec![0.0; 2]; 2]] {
        assert!(matches!(run(&record, &logits), Err(Error::Internal(_))), "{logits:?}");
    }
    for bad in [f32::NAN, f32::INFINITY] {
        match run(&record, &[vec![0.0, bad]]) {
            Err(Error::Checkpoint { message, .. }) => {
                assert!(message.contains("questions.mood"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}
