//! The embedded model for typed questions through WebGPU: the reference's values, within what its INT8 costs on the CPU.

use std::fs;

use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::clef::Clef;
use dikast_core::request::{DecideRequest, Json};
use dikast_tests::clef::Expected;
use dikast_tests::data::clef_mini;
use dikast_tests::gpu;
use dikast_wgpu::Precision;

#[test]
fn the_expected_values_of_the_reference_are_met() {
    let Some(backend) = gpu::open(Precision::Auto) else { return };
    let model = Clef::load(&dikast_models::clef_mini()).expect("it loads");
    let mut engine =
        Engine::with_model(backend, model, EngineOptions::default(), &mut |_, _| {}).expect("it fits");
    let text = fs::read(clef_mini().join("expected.json")).expect("expected.json");
    let expected: Vec<Expected> = serde_json::from_slice(&text).expect("its format");
    let examples = fs::read_to_string(clef_mini().join("eval.jsonl")).expect("eval.jsonl");
    let mut worst = 0.0_f64;
    // A software device takes its time: a third of the records.
    for want in expected.iter().step_by(3) {
        let is = |line: &&str| {
            Json::parse(line).is_ok_and(|t| t.get("id").and_then(Json::as_str) == Some(&want.id))
        };
        let line = examples.lines().find(is).expect("an example");
        let mut request = DecideRequest::from_json(line).expect("a request");
        if let Some(Json::Array(files)) = Json::parse(line).expect("JSON").get("image_files") {
            for file in files {
                let path = clef_mini().join("eval_images").join(file.as_str().expect("a name"));
                request.images.push(fs::read(path).expect("a picture"));
            }
        }
        let sequence = engine.prepare(&request).expect("a valid request");
        assert_eq!(sequence.record.ids, want.input_ids, "{}", want.id);
        let logits = pollster::block_on(engine.logits(&[&sequence])).expect("it runs").remove(0);
        let mut rest = logits.as_slice();
        for question in &want.questions {
            let (own, tail) = rest.split_at(question.logits.len());
            rest = tail;
            let exp: Vec<f64> = own.iter().map(|l| f64::from(*l).exp()).collect();
            let sum: f64 = exp.iter().sum();
            for (e, p) in exp.iter().zip(&question.probabilities) {
                worst = worst.max((e / sum - f64::from(*p)).abs());
            }
        }
        assert!(rest.is_empty());
    }
    println!("probabilities {worst:.1e}");
    assert!(worst < 0.03, "{worst:.1e}");
}
