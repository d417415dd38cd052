//! Every golden request: rendered prompt, token ids, positions, scores, output.

use super::fixture::{
    TINY, TOKENIZER, as_reference, attended_ids, config, floats, ids, mini_path, read, request, simple,
    single, tiny,
};
use dikast_core::Error;
use dikast_core::answers::{Classification, Receipt, ScoredLabel, assemble};
use dikast_core::models::gliclass::GliClassConfig;
use dikast_core::request::{ClassifyRequest, LabelSet, Mode};
use dikast_core::tokens::gliclass::{Prepared, check_tokenizer, prepare, render};
use dikast_core::tokens::{Sequence, Span, Tokenizer};
use serde_json::{Value, json};

const DEFAULT_MAX_TOKENS: usize = 1024;

fn check_tokens(config: &GliClassConfig, golden: &Value, i: usize) -> Prepared {
    let name = &golden["id"];
    let strict = request(golden, i);
    assert_eq!(json!(strict.labels.names()), golden["flat_labels"][i], "{name}");
    let rendered = render(
        config.prompt_first,
        &strict.text,
        strict.labels.names(),
        strict.prompt.as_deref().unwrap_or_default(),
        &strict.examples,
    );
    assert_eq!(json!(rendered.prompt), golden["rendered"][i], "{name}");
    let (mut covered, mut end) = (String::new(), 0);
    for (_, range) in &rendered.parts {
        assert_eq!(range.start, end);
        covered.push_str(&rendered.prompt[range.clone()]);
        end = range.end;
    }
    assert_eq!(covered, rendered.prompt);

    let prepared = prepare(config, &TOKENIZER, &as_reference(strict.clone()), DEFAULT_MAX_TOKENS).unwrap();
    let [sequence] = &prepared.sequences[..] else { panic!("{name}: one sequence") };
    assert_eq!(sequence.ids, attended_ids(golden, i), "{name}");
    assert_eq!(sequence.attended as usize, sequence.ids.len());
    assert_eq!(prepared.tokens as usize, sequence.ids.len());

    // The strict default gives the same tokens or refuses; it never differs in silence.
    match (prepare(config, &TOKENIZER, &strict, DEFAULT_MAX_TOKENS), refused_when_strict(name)) {
        (Ok(same), None) => assert_eq!(same, prepared, "{name}"),
        (Err(Error::InvalidRequest { field, .. }), Some(expected)) => assert_eq!(field, expected, "{name}"),
        (Err(Error::TooLarge { what, limit, actual }), Some(expected)) => {
            assert_eq!(what, expected, "{name}");
            assert_eq!(limit, golden["max_length"].as_u64().unwrap());
            assert!(actual > limit);
        }
        (other, expected) => panic!("{name}: {expected:?} expected, {other:?} found"),
    }
    prepared
}

/// Goldens that pin behaviour which misleads.
fn refused_when_strict(id: &Value) -> Option<&'static str> {
    Some(match id.as_str().unwrap() {
        "long-near-limit" | "text-truncated-64" | "labels-truncated-32" => "input tokens",
        "duplicate-labels" | "duplicate-labels-tree" => "labels[2]",
        "label-token-in-label" => "labels[0]",
        "empty-label" => "labels[0]",
        "sep-token-in-label" => "labels[1]",
        _ => return None,
    })
}

fn check_positions(config: &GliClassConfig, golden: &Value, i: usize) {
    let name = &golden["id"];
    let row = ids(&golden["input_ids"][i]);
    let attended = attended_ids(golden, i).len();
    let classes = golden["max_num_classes"].as_u64().unwrap() as usize;
    let sequence = Sequence::locate(config, row.clone(), attended, classes);
    assert_eq!((sequence.classes.len(), sequence.attended as usize), (classes, attended));
    let first_separator = golden["first_sep_position"][i].as_u64().map(|at| at as u32);
    if config.extract_text_features {
        assert_eq!(sequence.text.start, first_separator.unwrap_or(0), "{name}");
    } else {
        assert_eq!(sequence.text.start, 0, "{name}");
    }
    let markers = ids(&golden["class_token_positions"][i]);
    let before = u32::from(!config.embed_class_token);
    for (class, span) in sequence.classes.iter().enumerate() {
        let after_labels = first_separator.is_some_and(|at| markers.get(class).is_some_and(|&m| m > at));
        let averaged = config.class_token_pooling == dikast_core::models::gliclass::ClassPooling::Average;
        match markers.get(class) {
            Some(&marker) if !(averaged && config.extract_text_features && after_labels) => {
                assert_eq!(span.start, marker + before, "{name} {class}");
                assert!(span.end > span.start || !config.embed_class_token, "{name} {class}");
            }
            _ => assert_eq!(*span, Span::default(), "{name} {class}"),
        }
    }
}

fn check_scores(golden: &Value, i: usize, prepared: &Prepared) {
    let request = as_reference(request(golden, i));
    let logits = floats(&golden["logits"][i]);
    let answer = assemble(&request, prepared, std::slice::from_ref(&logits), Receipt::default()).unwrap();
    for (scored, (expected, logit)) in
        answer.scores.iter().zip(floats(&golden["probs"][i]).iter().zip(&logits))
    {
        assert!((scored.score - expected).abs() < 1e-6, "{}", golden["id"]);
        assert_eq!(scored.logit, Some(*logit));
    }
    assert_eq!(answer.receipt.tokens, prepared.tokens);
    let output = &golden["pipeline_output"][i];
    if golden["call"]["return_hierarchical"] == true {
        check_tree(&answer.tree(), output);
    } else {
        check_predictions(&answer.predictions(), output);
    }
}

pub(crate) fn check_predictions(predictions: &[&ScoredLabel], expected: &Value) {
    check_within(predictions, expected, 1e-6);
}

pub(crate) fn check_within(predictions: &[&ScoredLabel], expected: &Value, tolerance: f64) {
    let expected = expected.as_array().unwrap();
    assert_eq!(predictions.len(), expected.len());
    for (found, expected) in predictions.iter().zip(expected) {
        assert_eq!(json!(found.label), expected["label"]);
        assert!((f64::from(found.score) - expected["score"].as_f64().unwrap()).abs() < tolerance);
    }
}

fn check_tree(found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            assert!(found.keys().eq(expected.keys()));
            found.values().zip(expected.values()).for_each(|(f, e)| check_tree(f, e));
        }
        _ => assert!((found.as_f64().unwrap() - expected.as_f64().unwrap()).abs() < 1e-6),
    }
}

#[test]
fn goldens_of_the_tiny_model() {
    check_tokenizer(&TINY, &TOKENIZER).unwrap();
    let goldens = tiny("goldens/mt5-f32.json");
    let goldens = goldens["requests"].as_array().unwrap();
    assert_eq!(goldens.len(), 31);
    for golden in goldens {
        for i in 0..golden["texts"].as_array().unwrap().len() {
            let prepared = check_tokens(&TINY, golden, i);
            check_positions(&TINY, golden, i);
            check_scores(golden, i, &prepared);
        }
    }
}

#[test]
fn goldens_of_the_variants() {
    let mut checked = 0;
    for folder in std::fs::read_dir(super::fixture::tiny_path("variants")).unwrap() {
        let folder = folder.unwrap().path();
        let json = read(&folder.join("config.json"));
        if json["architecture_type"] != "uni-encoder" {
            continue;
        }
        checked += 1;
        let config = config(&json);
        let goldens = read(&folder.join("golden.json"));
        for golden in goldens["requests"].as_array().unwrap() {
            for i in 0..golden["texts"].as_array().unwrap().len() {
                let prepared = check_tokens(&config, golden, i);
                check_positions(&config, golden, i);
                check_scores(golden, i, &prepared);
            }
        }
    }
    assert_eq!(checked, 12);
}

#[test]
fn goldens_of_the_mini_model() {
    let config = config(&read(&mini_path("config.json")));
    let tokenizer = Tokenizer::from_bytes(&std::fs::read(mini_path("tokenizer.json")).unwrap()).unwrap();
    check_tokenizer(&config, &tokenizer).unwrap();
    let expected = read(&mini_path("expected.json"));
    let cases = expected["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 20);
    for case in cases {
        let labels: Vec<&str> =
            case["labels"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
        let multi = simple(case["text"].as_str().unwrap(), &labels);
        let rendered = render(true, &multi.text, multi.labels.names(), "", &[]);
        assert_eq!(json!(rendered.prompt), case["prompt"]);
        let prepared = prepare(&config, &tokenizer, &multi, DEFAULT_MAX_TOKENS).unwrap();
        assert_eq!(prepared.sequences[0].ids, ids(&case["input_ids"]));
        let logits = [floats(&case["logits"])];
        let scores = |answer: Classification| answer.scores.iter().map(|s| s.score).collect::<Vec<_>>();
        let close = |found: Vec<f32>, expected: &Value| {
            found.iter().zip(floats(expected)).all(|(f, e)| (f - e).abs() < 1e-6)
        };
        let answer = |request| assemble(&request, &prepared, &logits, Receipt::default()).unwrap();
        assert!(close(scores(answer(multi.clone())), &case["sigmoid"]));
        assert!(close(scores(answer(single(multi.clone()))), &case["softmax"]));
        assert_eq!(json!(answer(single(multi)).predictions()[0].label), case["top"]);
    }
}

#[test]
fn what_the_reference_fails_on_is_a_typed_error() {
    let errors = tiny("goldens/errors.json");
    let names: Vec<&str> = errors.as_array().unwrap().iter().map(|e| e["case"].as_str().unwrap()).collect();
    let field = |json: Value| match ClassifyRequest::from_json(&json) {
        Err(Error::InvalidRequest { field, message }) => {
            assert!(!message.is_empty());
            field
        }
        other => panic!("{json}: {other:?}"),
    };
    for name in names {
        match name {
            "no labels (empty list)" => assert_eq!(field(json!({"text": "x", "labels": []})), "labels"),
            "no labels (empty dict)" => assert_eq!(field(json!({"text": "x", "labels": {}})), "labels"),
            // One request holds one text: a list of thresholds has no meaning, a list of texts is a caller's loop.
            "threshold list length" => {
                assert_eq!(field(json!({"text": "a", "labels": ["x"], "threshold": [0.1]})), "threshold");
            }
            "bad type" => {
                let json = json!({"text": "a", "labels": ["x"], "classification_type": "ranking"});
                assert_eq!(field(json), "classification_type");
            }
            "non-string label" => assert_eq!(field(json!({"text": "a", "labels": [1, 2]})), "labels[0]"),
            "None text" => assert_eq!(field(json!({"text": null, "labels": ["x"]})), "text"),
            "empty text list" => assert_eq!(field(json!({"text": [], "labels": ["x"]})), "text"),
            name if name.starts_with("40 labels") => {
                let fixed = GliClassConfig { max_labels: Some(25), ..TINY.clone() };
                let request =
                    ClassifyRequest::new("x", LabelSet::flat((0..40).map(|i| format!("label {i}"))));
                let error = prepare(&fixed, &TOKENIZER, &request, DEFAULT_MAX_TOKENS).unwrap_err();
                assert!(matches!(error, Error::TooLarge { limit: 25, actual: 40, .. }), "{error}");
            }
            other => panic!("no test of {other}"),
        }
    }
}

#[test]
fn unusable_logits_are_faults() {
    let request = simple("text", &["a", "b"]);
    let prepared = prepare(&TINY, &TOKENIZER, &request, DEFAULT_MAX_TOKENS).unwrap();
    for bad in [vec![f32::NAN, 0.0], vec![0.0, f32::INFINITY]] {
        for mode in [Mode::MultiLabel, Mode::SingleLabel] {
            let request = ClassifyRequest { mode, ..request.clone() };
            let receipt = Receipt { model: "overflowing".into(), ..Receipt::default() };
            match assemble(&request, &prepared, std::slice::from_ref(&bad), receipt) {
                Err(Error::Checkpoint { item, .. }) => assert_eq!(item, "model overflowing"),
                other => panic!("{bad:?}: {other:?}"),
            }
        }
    }
    for bad in [vec![0.0], vec![]] {
        for mode in [Mode::MultiLabel, Mode::SingleLabel] {
            let request = ClassifyRequest { mode, ..request.clone() };
            let answer = assemble(&request, &prepared, std::slice::from_ref(&bad), Receipt::default());
            assert!(matches!(answer, Err(Error::Internal(_))), "{bad:?}");
        }
    }
    assert!(assemble(&request, &prepared, &[], Receipt::default()).is_err());
}
