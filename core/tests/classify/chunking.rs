//! Windows of text and groups of labels against the reference's chunking pipeline.

use super::fixture::{TINY, TOKENIZER, simple, single, tiny, tiny_path};
use super::goldens::{check_predictions, check_within};
use dikast_core::Error;
use dikast_core::answers::{Receipt, assemble};
use dikast_core::checkpoint::ModelFiles;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::request::{Chunking, ClassifyRequest, LabelSet};
use dikast_core::tokens::gliclass::prepare;
use serde_json::json;

#[test]
fn windows_and_groups_are_those_of_the_reference() {
    let golden = &tiny("goldens/mt5-extra.json")["chunking"];
    let size = |key: &str| golden[key].as_u64().unwrap() as usize;
    let chunking = Chunking {
        text_chars: size("text_chunk_size"),
        overlap_chars: size("text_chunk_overlap"),
        labels: size("labels_chunk_size"),
    };
    let text = golden["text"].as_str().unwrap();
    let windows = chunking.windows(text);
    assert_eq!(json!(windows), golden["chunks"]);

    let labels = LabelSet::from_json(&golden["labels"]).unwrap();
    let request = ClassifyRequest { chunking: Some(chunking), ..ClassifyRequest::new(text, labels.clone()) };
    let prepared = prepare(&TINY, &TOKENIZER, &request, size("max_length")).unwrap();
    assert_eq!((prepared.windows, &prepared.groups[..]), (4, &[0..3, 3..5][..]));
    // Window by window, group by group, each as if it were asked alone.
    let mut sequences = prepared.sequences.iter();
    for window in windows {
        for group in [0..3, 3..5] {
            let alone = ClassifyRequest::new(window, LabelSet::flat(labels.names()[group].to_vec()));
            let alone = prepare(&TINY, &TOKENIZER, &alone, 1024).unwrap();
            assert_eq!(sequences.next(), alone.sequences.first());
        }
    }
    assert_eq!(sequences.next(), None);
}

#[test]
fn a_label_keeps_its_best_window() {
    let mut request = simple("abcdef", &["x", "y", "z"]);
    request.chunking = Some(Chunking { text_chars: 4, overlap_chars: 1, labels: 2 });
    request.threshold = 0.6;
    let prepared = prepare(&TINY, &TOKENIZER, &request, 64).unwrap();
    assert_eq!((prepared.windows, prepared.groups.len(), prepared.sequences.len()), (2, 2, 4));
    let logits = [vec![0.0, 2.0], vec![-1.0], vec![1.0, -3.0], vec![3.0]];
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());

    let answer = assemble(&request, &prepared, &logits, Receipt::default()).unwrap();
    assert!(answer.scores.iter().all(|scored| scored.logit.is_none()));
    let expected = json!([
        {"label": "z", "score": sigmoid(3.0)}, {"label": "y", "score": sigmoid(2.0)}, {"label": "x", "score": sigmoid(1.0)},
    ]);
    check_predictions(&answer.predictions(), &expected);

    let softmax = |logits: [f64; 3]| {
        let sum: f64 = logits.iter().map(|x| x.exp()).sum();
        logits.map(|x| x.exp() / sum)
    };
    let (first, second) = (softmax([0.0, 2.0, -1.0]), softmax([1.0, -3.0, 3.0]));
    let best: Vec<f64> = first.iter().zip(second).map(|(a, b)| a.max(b)).collect();
    let answer = assemble(&single(request), &prepared, &logits, Receipt::default()).unwrap();
    let sum: f64 = best.iter().sum();
    for (scored, best) in answer.scores.iter().zip(&best) {
        assert!((f64::from(scored.score) - best / sum).abs() < 1e-6);
    }
    check_predictions(&answer.predictions(), &json!([{"label": "z", "score": best[2] / sum}]));
}

#[test]
fn a_window_over_the_limit_is_named() {
    let mut request = simple(&"word ".repeat(100), &["x"]);
    request.chunking = Some(Chunking { text_chars: 400, overlap_chars: 0, labels: 8 });
    match prepare(&TINY, &TOKENIZER, &request, 64) {
        Err(Error::TooLarge { what, limit: 64, .. }) => assert_eq!(what, "input tokens of window 0"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_work_of_one_request_is_limited() {
    let mut request = simple(&"x".repeat(10_000), &["x"]);
    request.prompt = Some("p".repeat(60_000));
    request.chunking = Some(Chunking { text_chars: 3, overlap_chars: 0, labels: 1 });
    let error = prepare(&TINY, &TOKENIZER, &request, 1 << 17).unwrap_err();
    assert!(matches!(&error, Error::TooLarge { what, .. } if what.contains("rendered")), "{error}");
    request.chunking = Some(Chunking { text_chars: 1, overlap_chars: 0, labels: 1 });
    assert!(matches!(request.validate(), Err(Error::TooLarge { .. })));
}

#[test]
fn the_reference_chunking_pipeline_end_to_end() {
    let golden = &tiny("goldens/mt5-extra.json")["chunking"];
    let files = ModelFiles::open(tiny_path("mt5")).unwrap();
    let mut engine = Engine::load(CpuBackend::new(), &files, EngineOptions::default()).unwrap();
    let labels = LabelSet::from_json(&golden["labels"]).unwrap();
    let multi = ClassifyRequest {
        threshold: 0.3,
        max_tokens: Some(256),
        chunking: Some(Chunking { text_chars: 300, overlap_chars: 50, labels: 3 }),
        ..ClassifyRequest::new(golden["text"].as_str().unwrap(), labels)
    };
    let answers = pollster::block_on(engine.classify(&[multi.clone(), single(multi)]));
    let [Ok(multi), Ok(single)] = &answers[..] else { panic!("{answers:?}") };
    check_within(&multi.predictions(), &golden["multi_label_threshold_0.3"][0], 1e-4);
    check_within(&single.predictions(), &golden["single_label"][0], 1e-4);
}
