//! Arbitrary requests: an answer or a typed error, never a panic, and never a wrong count.

use super::fixture::{TINY, TOKENIZER, as_reference, config, tiny};
use dikast_core::answers::{Receipt, assemble};
use dikast_core::request::{Chunking, ClassifyRequest, LabelSet, Mode, Truncation};
use dikast_core::tokens::gliclass::prepare;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Text with everything that tokenizers stumble over.
fn wild() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[ -~]{0,12}",
        "\\PC{0,6}",
        Just("<<LABEL>>".to_owned()),
        Just("<<SEP>>".to_owned()),
        Just("<<EXAMPLE>>".to_owned()),
        Just("</s><pad><unk>".to_owned()),
        Just("\u{0}\u{1}\u{200b}\u{feff}\u{202e}\u{2581}".to_owned()),
        Just("e\u{301}\u{301}\u{301}\u{1f469}\u{200d}\u{1f680}".to_owned()),
        Just("word ".repeat(200)),
        Just("x".repeat(3000)),
    ];
    proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        wild().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((wild(), inner), 0..6)
                .prop_map(|items| Value::Object(items.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn requests_are_answered_or_refused(
        text in wild(),
        labels in proptest::collection::vec(wild(), 0..6),
        prompt in proptest::option::of(wild()),
        limit in 1_usize..400,
        how in prop_oneof![Just(Truncation::Refuse), Just(Truncation::Text), Just(Truncation::Right)],
        chunking in proptest::option::of((0_usize..2000, 0_usize..40, 0_usize..4)),
        (single, reference, text_first) in any::<(bool, bool, bool)>(),
    ) {
        let name = if text_first { "variants/simple-avg-textfirst/config.json" } else { "mt5/config.json" };
        let config = config(&tiny(name));
        let mut request = ClassifyRequest {
            prompt,
            max_tokens: Some(limit),
            mode: if single { Mode::SingleLabel } else { Mode::MultiLabel },
            chunking: chunking.map(|(text_chars, overlap_chars, labels)| Chunking { text_chars, overlap_chars, labels }),
            ..ClassifyRequest::new(text, LabelSet::flat(labels))
        };
        if reference {
            request = as_reference(request);
        }
        request.truncation = how;
        let Ok(prepared) = prepare(&config, &TOKENIZER, &request, 1024) else { return Ok(()) };
        for sequence in &prepared.sequences {
            prop_assert!(sequence.ids.len() <= limit);
            prop_assert_eq!(sequence.ids.last(), Some(&1));
            prop_assert!(sequence.ids.iter().all(|&id| (id as usize) < config.encoder.vocab_size));
            let rows = sequence.ids.len() as u32;
            prop_assert!(sequence.classes.iter().chain([&sequence.text]).all(|s| s.start <= s.end && s.end <= rows));
            if !reference && how != Truncation::Right {
                prop_assert!(sequence.classes.iter().all(|span| span.start < span.end));
            }
        }
        let logits: Vec<Vec<f32>> =
            prepared.sequences.iter().map(|s| (0..s.classes.len()).map(|i| i as f32 - 1.0).collect()).collect();
        let answer = assemble(&request, &prepared, &logits, Receipt::default()).unwrap();
        prop_assert_eq!(answer.scores.len(), request.labels.len());
        prop_assert!(answer.scores.iter().all(|s| (0.0..=1.0).contains(&s.score)));
        let _ = (answer.tree(), answer.to_json().to_string());
    }

    #[test]
    fn any_json_is_parsed_or_refused(request in any_json(), labels in any_json(), examples in any_json()) {
        let _ = ClassifyRequest::from_json(&request);
        let _ = ClassifyRequest::from_json(&json!({"text": "t", "labels": labels, "examples": examples}));
        if let Ok(labels) = LabelSet::from_json_with(&labels, "/") {
            let _ = labels.shaped(&mut |i| json!(i));
            let _ = labels.nested_by("a");
        }
    }
}

#[test]
fn a_very_long_word_is_tokenized_in_time() {
    let request = ClassifyRequest {
        truncation: Truncation::Text,
        ..ClassifyRequest::new("x".repeat(1 << 20), LabelSet::flat(["a", "b"]))
    };
    let prepared = prepare(&TINY, &TOKENIZER, &request, 64).unwrap();
    assert_eq!(prepared.sequences[0].ids.len(), 64);
}
