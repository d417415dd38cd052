//! The embedded model: goldens of the reference package and its accuracy.

use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::request::{ClassifyRequest, LabelSet, Mode};
use dikast_tests::data::gliclass_mini;
use serde::Deserialize;

fn engine() -> Engine<CpuBackend> {
    Engine::load(CpuBackend::new(), &dikast_models::gliclass_mini(), EngineOptions::default())
        .expect("it loads")
}

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    labels: Vec<String>,
    input_ids: Vec<u32>,
    logits: Vec<f32>,
    sigmoid: Vec<f32>,
    softmax: Vec<f32>,
    top: String,
}

#[test]
fn the_expected_values_of_the_reference_package_are_met() {
    let text = std::fs::read(gliclass_mini().join("expected.json")).expect("expected.json");
    let expected: Expected = serde_json::from_slice(&text).expect("its format");
    assert_eq!(expected.cases.len(), 20);
    let mut engine = engine();
    let mut worst = 0.0f32;
    for case in &expected.cases {
        let mut request = ClassifyRequest::new(&case.text, LabelSet::flat(case.labels.clone()));
        assert_eq!(engine.prepare(&request).expect("a valid request").sequences[0].ids, case.input_ids);
        for (mode, probabilities) in [(Mode::MultiLabel, &case.sigmoid), (Mode::SingleLabel, &case.softmax)] {
            request.mode = mode;
            let answer = pollster::block_on(engine.classify(std::slice::from_ref(&request)))
                .remove(0)
                .expect("an answer");
            for ((s, p), l) in answer.scores.iter().zip(probabilities).zip(&case.logits) {
                worst = worst.max((s.score - p).abs()).max((s.logit.expect("one window") - l).abs());
            }
            assert_eq!(answer.ranked(Some(1))[0].label, case.top);
        }
    }
    println!("gliclass-mini: largest difference {worst:.1e}");
    assert!(worst < 1e-3, "{worst}");
}

#[derive(Deserialize)]
struct Example {
    text: String,
    labels: Vec<String>,
    expected: String,
    lang: String,
}

#[test]
fn the_accuracy_is_the_model_cards() {
    let text = std::fs::read_to_string(gliclass_mini().join("eval.jsonl")).expect("eval.jsonl");
    let examples: Vec<Example> = text.lines().map(|l| serde_json::from_str(l).expect("its format")).collect();
    let requests: Vec<ClassifyRequest> =
        examples.iter().map(|e| ClassifyRequest::new(&e.text, LabelSet::flat(e.labels.clone()))).collect();
    let answers = pollster::block_on(engine().classify(&requests));
    let right = |english: Option<bool>| {
        let chosen =
            examples.iter().zip(&answers).filter(|(e, _)| english.is_none_or(|en| (e.lang == "en") == en));
        let (mut right, mut all) = (0, 0);
        for (example, answer) in chosen {
            let answer = answer.as_ref().expect("an answer");
            right += usize::from(answer.ranked(Some(1))[0].label == example.expected);
            all += 1;
        }
        (right, all)
    };
    let (all, english, other) = (right(None), right(Some(true)), right(Some(false)));
    println!("gliclass-mini on eval.jsonl: {all:?} top-1; English {english:?}, other languages {other:?}");
    assert_eq!(all, (62, 75));
    assert_eq!(english, (36, 45));
    assert_eq!(other, (26, 30));
}
