//! The embedded model on a WebGPU device, f32 and f16 paths.

use dikast_core::backend::Backend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::request::{ClassifyRequest, LabelSet};
use dikast_tests::data::gliclass_mini;
use dikast_tests::gpu;
use dikast_wgpu::Precision;
use serde::Deserialize;

/// Both paths with their bounds for a probability.
const PATHS: [(Precision, f32); 2] = [(Precision::F32, 1e-4), (Precision::Auto, 5e-3)];

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    labels: Vec<String>,
    sigmoid: Vec<f32>,
    top: String,
}

#[test]
fn the_embedded_model_gives_the_expected_values() {
    let text = std::fs::read(gliclass_mini().join("expected.json")).expect("expected.json");
    let expected: Expected = serde_json::from_slice(&text).expect("its format");
    for (precision, probability) in PATHS {
        let Some(backend) = gpu::open(precision) else { return };
        println!("{:?}", backend.capabilities());
        let mut engine = Engine::load(backend, &dikast_models::gliclass_mini(), EngineOptions::default())
            .expect("it loads");
        let requests: Vec<ClassifyRequest> = expected
            .cases
            .iter()
            .map(|c| {
                let mut request = ClassifyRequest::new(&c.text, LabelSet::flat(c.labels.clone()));
                request.mode = dikast_core::request::Mode::MultiLabel;
                request
            })
            .collect();
        let answers = pollster::block_on(engine.classify(&requests));
        let mut worst = 0.0f32;
        for (case, answer) in expected.cases.iter().zip(answers) {
            let answer = answer.expect("an answer");
            for (score, want) in answer.scores.iter().zip(&case.sigmoid) {
                worst = worst.max((score.score - want).abs());
            }
            assert_eq!(answer.ranked(Some(1))[0].label, case.top);
        }
        println!("gliclass-mini {precision:?}: largest difference of a probability {worst:.1e}");
        assert!(worst < probability.max(1e-3), "{worst}");
    }
}
