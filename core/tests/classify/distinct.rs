//! Labels that the model cannot tell apart, or cannot see.

use super::fixture::{TINY, TOKENIZER, simple, tiny};
use dikast_core::Error;
use dikast_core::request::{Chunking, ClassifyRequest, Strictness};
use dikast_core::tokens::Tokenizer;
use dikast_core::tokens::gliclass::prepare;
use serde_json::json;

fn refusal(tokenizer: &Tokenizer, request: &ClassifyRequest) -> Option<(String, String)> {
    match prepare(&TINY, tokenizer, request, 1024) {
        Ok(_) => None,
        Err(Error::InvalidRequest { field, message }) => Some((field, message)),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn labels_of_the_same_tokens_are_refused() {
    let duplicates = Strictness { allow_duplicate_labels: true, ..Strictness::default() };
    for labels in [["travel", "food", "travel "], ["travel", "food", "\u{ff54}ravel"]] {
        let request = simple("a text", &labels);
        let (field, message) = refusal(&TOKENIZER, &request).expect("the same to the model");
        assert_eq!(field, "labels[2]");
        assert!(message.contains("labels[0], \"travel\""), "{message}");
        let grouped = Chunking { labels: 1, ..Chunking::default() };
        assert!(
            refusal(&TOKENIZER, &ClassifyRequest { chunking: Some(grouped), ..request.clone() }).is_some()
        );
        assert!(refusal(&TOKENIZER, &ClassifyRequest { strictness: duplicates, ..request }).is_none());
    }
    let cases = simple("a text", &["Travel", "travel"]);
    assert!(refusal(&TOKENIZER, &cases).is_none());
    let mut folding = tiny("mt5/tokenizer.json");
    let map = folding["normalizer"].take();
    folding["normalizer"] = json!({"type": "Sequence", "normalizers": [map, {"type": "Lowercase"}]});
    let folding = Tokenizer::from_bytes(&serde_json::to_vec(&folding).unwrap()).unwrap();
    assert!(refusal(&folding, &cases).is_some());
}

#[test]
fn labels_that_say_nothing_are_refused() {
    let empty = Strictness { allow_empty_labels: true, ..Strictness::default() };
    for label in ["", "  ", "\u{7}", "\n\t"] {
        let request = simple("a text", &["food", label]);
        assert_eq!(refusal(&TOKENIZER, &request).expect("refused").0, "labels[1]");
        assert!(refusal(&TOKENIZER, &ClassifyRequest { strictness: empty, ..request }).is_none());
    }
}
