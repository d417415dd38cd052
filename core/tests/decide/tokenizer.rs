//! Byte-level BPE of the Qwen tokenizers.

use std::sync::LazyLock;

use dikast_core::Error;
use dikast_core::tokens::Tokenizer;
use dikast_core::tokens::clef::ClefPrompt;
use serde_json::{Value, json};

use crate::fixture::{PROMPT, path};

/// The facts of the table, and its rows.
static CASES: LazyLock<(Value, Vec<Value>)> = LazyLock::new(|| {
    let text = std::fs::read_to_string(path("tokenizer-qwen/cases.jsonl")).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    (lines.next().unwrap()["meta"].clone(), lines.collect())
});

fn subset() -> Value {
    serde_json::from_slice(&std::fs::read(path("tokenizer-qwen/tokenizer-subset.json")).unwrap()).unwrap()
}

fn with_pattern(pattern: &Value) -> dikast_core::Result<Tokenizer> {
    let mut file = subset();
    file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern.clone();
    Tokenizer::from_bytes(file.to_string().as_bytes())
}

#[test]
fn both_patterns_give_the_ids_of_the_table() {
    let (meta, cases) = &*CASES;
    assert_eq!(cases.len(), 216);
    let mut different = 0;
    for pattern in ["ids", "ids_qwen2_split"] {
        let tokenizer = with_pattern(&meta[format!("regex_{pattern}")]).unwrap();
        for case in cases {
            let text = case["text"].as_str().unwrap();
            let expected = case.get(pattern).unwrap_or(&case["ids"]);
            assert_eq!(&json!(tokenizer.ids(text).unwrap()), expected, "{pattern}: {text:?}");
            different += usize::from(pattern != "ids" && case.get(pattern).is_some());
        }
    }
    assert_eq!(different, 11);
}

#[test]
fn plain_ids_differ_only_where_there_are_added_tokens() {
    let tokenizer = Tokenizer::from_bytes(subset().to_string().as_bytes()).unwrap();
    let mut with_added = 0;
    for case in &CASES.1 {
        let text = case["text"].as_str().unwrap();
        let (ids, plain) = (tokenizer.ids(text).unwrap(), tokenizer.plain_ids(text).unwrap());
        let added = ids.iter().any(|id| *id >= 248_044);
        assert!(plain.iter().all(|id| *id < 248_044), "{text:?}");
        assert_eq!(ids == plain, !added, "{text:?}");
        with_added += usize::from(added);
    }
    assert!(with_added > 5);
}

#[test]
fn the_pattern_is_the_files_and_others_are_refused() {
    let facts = PROMPT.tokenizer().facts();
    assert_eq!((facts.model.as_str(), facts.vocabulary, facts.largest_id), ("BPE", 2017, 2016));
    assert_eq!(
        (&facts.normalizers[..], &facts.pre_tokenizers[..]),
        (&["NFC".to_owned()][..], &["Split".to_owned(), "ByteLevel".to_owned()][..])
    );
    // A pattern of this program's own would make this file an accepted one.
    let error = with_pattern(&json!("(a+)+$")).map(drop);
    assert!(matches!(error, Err(Error::Checkpoint { .. })), "{error:?}");
}

#[test]
fn a_tokenizer_of_another_family_makes_no_prompt() {
    for (name, change) in [("<|image_pad|>", None), ("</think>", None), ("<|im_end|>", Some("lstrip"))] {
        let mut file = subset();
        let added = file["added_tokens"].as_array_mut().unwrap();
        let token = added.iter_mut().find(|token| token["content"] == name).unwrap();
        match change {
            None => token["content"] = json!("<|other|>"),
            Some(flag) => token[flag] = json!(true),
        }
        if change.is_none() {
            let vocabulary = file["model"]["vocab"].as_object_mut().unwrap();
            let id = vocabulary.remove(name).unwrap();
            vocabulary.insert("<|other|>".to_owned(), id);
        }
        let tokenizer = Tokenizer::from_bytes(file.to_string().as_bytes()).unwrap();
        match ClefPrompt::new(tokenizer).map(drop) {
            Err(Error::Checkpoint { message, .. }) => assert!(message.contains(name), "{message}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}
