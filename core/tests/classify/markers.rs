//! Which markers are refused where.

use super::fixture::{TINY, TOKENIZER, config, simple, tiny};
use dikast_core::Error;
use dikast_core::models::gliclass::{ClassPooling, GliClassConfig};
use dikast_core::request::{ClassifyRequest, Example};
use dikast_core::tokens::gliclass::{Prepared, prepare};

fn prepared(config: &GliClassConfig, request: &ClassifyRequest) -> dikast_core::Result<Prepared> {
    prepare(config, &TOKENIZER, request, 256)
}

/// The field that strict checks refuse; `allow_markers` must accept it.
fn refused(config: &GliClassConfig, mut request: ClassifyRequest) -> Option<String> {
    let strict = prepared(config, &request);
    request.strictness.allow_markers = true;
    let compatible = prepared(config, &request).unwrap();
    match strict {
        Ok(strict) => {
            assert_eq!(strict, compatible);
            None
        }
        Err(Error::InvalidRequest { field, .. }) => Some(field),
        Err(other) => panic!("{other}"),
    }
}

fn with_example(text: &str, labels: &[&str]) -> ClassifyRequest {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    ClassifyRequest { examples: vec![Example { text: text.into(), labels }], ..simple("text", &["a", "b"]) }
}

#[test]
fn in_labels() {
    for marker in ["<<LABEL>>", "<<SEP>>", "<<EXAMPLE>>"] {
        for label in [marker.to_owned(), format!("x{marker}"), format!("{marker} y")] {
            assert_eq!(refused(&TINY, simple("t", &["a", &label, "c"])), Some("labels[1]".into()), "{label}");
        }
    }
    // No marker: fullwidth forms, halves, other case, other special tokens.
    for label in ["＜＜LABEL＞＞", "<<LABEL>", "<LABEL>>", "<<label>>", "</s>", "<pad>", "<unk>", "<", "<<"]
    {
        assert_eq!(refused(&TINY, simple("t", &["a", label, "c"])), None, "{label}");
    }
}

#[test]
fn labels_are_counted_over_groups() {
    let mut request = simple("t", &["a", "b", "c", "d<<LABEL>>"]);
    request.chunking = Some(dikast_core::request::Chunking { labels: 3, ..Default::default() });
    assert_eq!(refused(&TINY, request), Some("labels[3]".into()));
}

#[test]
fn after_the_labels_they_are_harmless() {
    for marker in ["<<LABEL>>", "<<SEP>>", "<<EXAMPLE>>"] {
        let text = format!("ignore {marker} this");
        assert_eq!(refused(&TINY, simple(&text, &["a", "b"])), None);
        let prompt = ClassifyRequest { prompt: Some(text.clone()), ..simple("t", &["a", "b"]) };
        assert_eq!(refused(&TINY, prompt), None);
        assert_eq!(refused(&TINY, with_example(&text, &[&text])), None);
        let plain = prepared(&TINY, &simple("ignore this", &["a", "b"])).unwrap();
        let marked = prepared(&TINY, &simple(&text, &["a", "b"])).unwrap();
        assert_eq!(plain.sequences[0].classes, marked.sequences[0].classes);
        assert_eq!(plain.sequences[0].text.start, marked.sequences[0].text.start);
    }
}

#[test]
fn a_text_before_the_labels_may_not_start_or_end_them() {
    let text_first = config(&tiny("variants/simple-avg-textfirst/config.json"));
    assert_eq!(refused(&text_first, simple("x <<LABEL>> y", &["a", "b"])), Some("text".into()));
    assert_eq!(refused(&text_first, simple("x <<SEP>> y", &["a", "b"])), Some("text".into()));
    assert_eq!(refused(&text_first, simple("x <<EXAMPLE>> </s> y", &["a", "b"])), None);
    let prompt = ClassifyRequest { prompt: Some("<<LABEL>><<SEP>>".into()), ..simple("x", &["a", "b"]) };
    assert_eq!(refused(&text_first, prompt), None);
}

#[test]
fn an_average_over_the_rest_of_the_sequence_may_not_be_cut_short() {
    let average = GliClassConfig {
        class_token_pooling: ClassPooling::Average,
        extract_text_features: false,
        ..TINY.clone()
    };
    assert_eq!(refused(&average, simple("x <<LABEL>> y", &["a", "b"])), Some("text".into()));
    assert_eq!(refused(&average, simple("x <<SEP>> y", &["a", "b"])), None);
    assert_eq!(refused(&average, with_example("<<LABEL>>", &[])), Some("examples[0]".into()));
}

#[test]
fn an_example_marker_may_not_change_all_segments() {
    let segments = GliClassConfig { use_segment_embeddings: true, ..TINY.clone() };
    assert_eq!(refused(&segments, simple("x <<EXAMPLE>> y", &["a", "b"])), Some("text".into()));
    // With examples every segment is 2 anyway.
    assert_eq!(refused(&segments, with_example("<<EXAMPLE>>", &["a"])), None);
    let request = with_example("x", &["a"]);
    assert!(prepared(&segments, &request).unwrap().sequences[0].segments.iter().all(|&s| s == 2));
}
