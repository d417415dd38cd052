//! The embedded model for typed questions: the reference's values, and the accuracy that its card states.
//!
//! What ships is INT8 ConvRot and the reference's values are those of the BF16 weights in f32, so that only tokens are
//! equal; logits and probabilities are within the quantization's tolerance.

use std::collections::BTreeMap;
use std::fs;

use dikast_core::answers::{Answer, Decision};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::clef::Clef;
use dikast_core::request::{DecideRequest, Json};
use dikast_tests::clef::{Expected, differences};
use dikast_tests::data::clef_mini;

fn engine() -> Engine<CpuBackend, Clef> {
    let model = Clef::load(&dikast_models::clef_mini()).expect("it loads");
    assert_eq!(model.format(), "INT8 ConvRot");
    Engine::with_model(CpuBackend::new(), model, EngineOptions::default(), &mut |_, _| {}).expect("it fits")
}

/// A record of `eval.jsonl`.
struct Example {
    id: String,
    domain: String,
    request: DecideRequest,
    /// The right option of each question.
    expected: BTreeMap<String, String>,
}

fn examples() -> Vec<Example> {
    let text = fs::read_to_string(clef_mini().join("eval.jsonl")).expect("eval.jsonl");
    text.lines().map(example).collect()
}

fn example(line: &str) -> Example {
    let mut request = DecideRequest::from_json(line).expect("a request");
    let tree = Json::parse(line).expect("JSON");
    let text = |key: &str| tree.get(key).and_then(Json::as_str).expect("a string").to_owned();
    if let Some(Json::Array(files)) = tree.get("image_files") {
        for file in files {
            let path = clef_mini().join("eval_images").join(file.as_str().expect("a name"));
            request.images.push(fs::read(path).expect("a picture"));
        }
    }
    let Some(Json::Object(expected)) = tree.get("expected") else { panic!("{line}") };
    let expected =
        expected.iter().map(|(id, option)| (id.clone(), option.as_str().expect("an option").to_owned()));
    Example { id: text("id"), domain: text("domain"), request, expected: expected.collect() }
}

#[test]
fn the_expected_values_of_the_reference_are_met() {
    let text = fs::read(clef_mini().join("expected.json")).expect("expected.json");
    let expected: Vec<Expected> = serde_json::from_slice(&text).expect("its format");
    assert_eq!(expected.len(), 20);
    let examples = examples();
    let mut engine = engine();
    let (mut worst_p, mut found_all, mut want_all) = (0.0_f64, Vec::new(), Vec::new());
    for want in &expected {
        let example = examples.iter().find(|e| e.id == want.id).expect("an example");
        let sequence = engine.prepare(&example.request).expect("a valid request");
        assert_eq!(sequence.record.ids, want.input_ids, "{}", want.id);
        for (slots, want) in sequence.record.questions.iter().zip(&want.questions) {
            assert_eq!([slots.span.start, slots.span.end], want.question_span);
            let spans: Vec<[u32; 2]> = slots.options.iter().map(|s| [s.start, s.end]).collect();
            assert_eq!(spans, want.option_spans);
        }
        let logits = pollster::block_on(engine.logits(&[&sequence])).expect("it runs").remove(0);
        let mut rest = logits.as_slice();
        for question in &want.questions {
            let (own, tail) = rest.split_at(question.logits.len());
            rest = tail;
            let exp: Vec<f64> = own.iter().map(|l| f64::from(*l).exp()).collect();
            let sum: f64 = exp.iter().sum();
            for (e, p) in exp.iter().zip(&question.probabilities) {
                worst_p = worst_p.max((e / sum - f64::from(*p)).abs());
            }
            found_all.extend_from_slice(own);
            want_all.extend_from_slice(&question.logits);
        }
        assert!(rest.is_empty());
    }
    let (largest, relative) = differences(&found_all, &want_all);
    println!(
        "clef-mini, INT8 against the reference in f32: {} logits, relative L2 {relative:.1e}, largest {largest:.1e}; \
         probabilities {worst_p:.1e}",
        want_all.len()
    );
    assert!(relative < 0.02 && worst_p < 0.03, "{relative} {worst_p}");
}

/// The most likely option of an answer, as the evaluation names it.
fn most_likely(answer: &Answer) -> String {
    match answer {
        Answer::Noul { probability } => (*probability >= 0.5).to_string(),
        Answer::Choice { choice, probabilities, .. } => probabilities[*choice].0.clone(),
        Answer::Score { probabilities, .. } => {
            let best = probabilities.iter().copied().fold(0.0, f64::max);
            probabilities.iter().position(|p| *p == best).expect("a level").to_string()
        }
    }
}

/// Right answers and questions of those that are counted.
fn right(
    examples: &[Example],
    decisions: &[Decision],
    counts: impl Fn(&Example, &Answer) -> bool,
) -> (usize, usize) {
    let (mut right, mut all) = (0, 0);
    for (example, decision) in examples.iter().zip(decisions) {
        for (id, answer) in decision.answers.iter().filter(|(_, answer)| counts(example, answer)) {
            right += usize::from(most_likely(answer) == example.expected[id]);
            all += 1;
        }
    }
    (right, all)
}

#[test]
fn the_accuracy_is_the_model_cards() {
    let examples = examples();
    let requests: Vec<DecideRequest> = examples.iter().map(|e| e.request.clone()).collect();
    let decisions: Vec<Decision> =
        pollster::block_on(engine().decide(&requests)).into_iter().map(|d| d.expect("an answer")).collect();
    let domain = |name: &str| right(&examples, &decisions, |e, _| e.domain == name);
    let all = right(&examples, &decisions, |_, _| true);
    let noul = right(&examples, &decisions, |_, a| matches!(a, Answer::Noul { .. }));
    let choice = right(&examples, &decisions, |_, a| matches!(a, Answer::Choice { .. }));
    let score = right(&examples, &decisions, |_, a| matches!(a, Answer::Score { .. }));
    let (text, json, picture) = (domain("text"), domain("json"), domain("picture"));
    println!(
        "clef-mini on eval.jsonl: {all:?}; choice {choice:?}, noul {noul:?}, score {score:?}; text {text:?}, json \
         {json:?}, pictures {picture:?}"
    );
    assert_eq!(all, (63, 80));
    assert_eq!((choice, noul, score), ((38, 44), (22, 29), (3, 7)));
    assert_eq!((text, json, picture), ((43, 53), (12, 16), (8, 11)));
}
