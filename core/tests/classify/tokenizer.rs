//! Loading `tokenizer.json`, good and bad.

use super::fixture::{TINY, TOKENIZER, mini_path, simple, tiny, tiny_path};
use dikast_core::Error;
use dikast_core::models::gliclass::GliClassConfig;
use dikast_core::tokens::Tokenizer;
use dikast_core::tokens::gliclass::{check_tokenizer, prepare};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

fn load(json: &Value) -> dikast_core::Result<Tokenizer> {
    Tokenizer::from_bytes(&serde_json::to_vec(json).unwrap())
}

/// The message of the checkpoint error that a changed file gives.
fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let mut json = tiny("mt5/tokenizer.json");
    change(&mut json);
    match load(&json) {
        Err(Error::Checkpoint { item, message }) => {
            assert_eq!(item, "tokenizer.json");
            message
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn stale_truncation_and_padding_are_ignored() {
    let mut json = tiny("mt5/tokenizer.json");
    json["truncation"] =
        json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"});
    let stale = load(&json).unwrap();
    assert_eq!(stale.facts().ignored, ["truncation", "padding"]);
    let request = simple("A text of more than three tokens.", &["a", "b"]);
    let tokens = |tokenizer| prepare(&TINY, tokenizer, &request, 256).unwrap();
    assert_eq!(tokens(&stale), tokens(&TOKENIZER));
    assert!(TOKENIZER.facts().ignored.is_empty());
}

#[test]
fn facts_are_those_of_the_file() {
    let facts = TOKENIZER.facts();
    assert_eq!((facts.model.as_str(), facts.byte_fallback), ("Unigram", false));
    assert_eq!((facts.vocabulary, facts.largest_id), (2043, 2042));
    assert_eq!(facts.normalizers, ["Precompiled"]);
    assert_eq!(facts.pre_tokenizers, ["WhitespaceSplit", "Metaspace"]);
    assert_eq!((&facts.prefix[..], &facts.suffix[..]), (&[][..], &[1][..]));
    assert_eq!(TOKENIZER.token_id("<<SEP>>"), Some(2041));
    assert_eq!(TOKENIZER.token(1).as_deref(), Some("</s>"));
    assert_eq!(TOKENIZER.added_tokens().len(), 6);

    let mini = Tokenizer::from_bytes(&std::fs::read(mini_path("tokenizer.json")).unwrap()).unwrap();
    assert!(mini.facts().byte_fallback);
    assert_eq!(mini.facts().normalizers, ["Precompiled", "Replace"]);
    assert!(format!("{mini:?}").len() < 2000, "the vocabulary is not printed");
}

#[test]
fn offsets_are_bytes_of_the_text() {
    let text = "x é🚀<<SEP>> y";
    let encoded = TOKENIZER.encode(text).unwrap();
    let at = encoded.ids.iter().position(|&id| id == 2041).unwrap();
    let (start, end) = encoded.offsets[at];
    assert_eq!(&text[start..end], "<<SEP>>");
    assert!(encoded.offsets.iter().all(|&(start, end)| text.get(start..end).is_some()));
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let message = |config: GliClassConfig| match check_tokenizer(&config, &TOKENIZER) {
        Err(Error::Checkpoint { item, message }) => {
            assert_eq!(item, "tokenizer.json");
            message
        }
        other => panic!("{other:?}"),
    };
    assert!(message(GliClassConfig { class_token_index: 7, ..TINY.clone() }).contains("class_token_index"));
    assert!(message(GliClassConfig { text_token_index: 7, ..TINY.clone() }).contains("text_token_index"));
    assert!(
        message(GliClassConfig { example_token_index: 7, ..TINY.clone() }).contains("example_token_index")
    );
    let mut small = TINY.clone();
    small.encoder.vocab_size = 2042;
    assert!(message(small).contains("2042 embedding rows"));

    let mut json = tiny("mt5/tokenizer.json");
    json["added_tokens"].as_array_mut().unwrap().retain(|token| token["content"] != "<<EXAMPLE>>");
    assert!(check_tokenizer(&TINY, &load(&json).unwrap()).is_err());
    let mut json = tiny("mt5/tokenizer.json");
    json["added_tokens"][3]["lstrip"] = json!(true);
    assert!(check_tokenizer(&TINY, &load(&json).unwrap()).is_err());

    for (at, marker, id) in [(0, "<<LABEL>>", 2040), (2, "<<SEP>>", 2041), (1, "<<EXAMPLE>>", 2042)] {
        let mut json = tiny("mt5/tokenizer.json");
        json["post_processor"]["special_tokens"][marker] =
            json!({"id": marker, "ids": [id], "tokens": [marker]});
        let token = json!({"SpecialToken": {"id": marker, "type_id": 0}});
        json["post_processor"]["single"].as_array_mut().unwrap().insert(at, token);
        let error = check_tokenizer(&TINY, &load(&json).unwrap()).unwrap_err().to_string();
        assert!(error.contains("post_processor adds") && error.contains(marker), "{error}");
    }
}

#[test]
fn files_that_would_stop_or_mislead_the_tokenizer_crate_are_refused() {
    let template = "post_processor";
    let cases: Vec<(&str, String)> = vec![
        ("base64", refusal(|f| f["normalizer"]["precompiled_charsmap"] = json!("ALw*"))),
        ("header", refusal(|f| f["normalizer"]["precompiled_charsmap"] = json!(""))),
        ("says", refusal(|f| f["normalizer"]["precompiled_charsmap"] = json!("/////w=="))),
        ("empty", refusal(|f| f["normalizer"]["precompiled_charsmap"] = json!("AAAAAA=="))),
        ("missing", refusal(|f| f["normalizer"]["precompiled_charsmap"] = json!(7))),
        ("special_tokens", refusal(|f| f[template]["special_tokens"] = json!({}))),
        ("no token", refusal(|f| f[template]["special_tokens"]["</s>"]["ids"] = json!([99_999]))),
        ("lacks", refusal(|f| f[template]["single"] = json!([]))),
        (
            "one sequence A",
            refusal(|f| f[template]["single"] = json!([{"Sequence": {"id": "B", "type_id": 0}}])),
        ),
        ("<<LABEL>>", refusal(|f| f["added_tokens"][3]["id"] = json!(7))),
        ("WordLevel", refusal(|f| f["model"]["type"] = json!("WordLevel"))),
        ("pre_tokenizer type", refusal(|f| f["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0}))),
        (
            "pattern",
            refusal(|f| {
                let split = json!({"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": false});
                f["pre_tokenizer"] = split;
            }),
        ),
        (
            "replacements",
            refusal(|f| {
                f["normalizer"] =
                    json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"});
            }),
        ),
        (
            "times longer",
            refusal(|f| {
                let grow = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaa"});
                f["normalizer"] = json!({"type": "Sequence", "normalizers": [grow, grow]});
            }),
        ),
        (
            "one Precompiled",
            refusal(|f| {
                let map = f["normalizer"].clone();
                f["normalizer"] = json!({"type": "Sequence", "normalizers": [map, map]});
            }),
        ),
        ("piece of 200000 bytes", refusal(|f| f["model"]["vocab"][9][0] = json!("a".repeat(200_000)))),
        ("piece of 513 bytes", refusal(|f| f["added_tokens"][5]["content"] = json!("a".repeat(513)))),
        (
            "piece of 513 bytes",
            refusal(|f| f["model"] = json!({"type": "BPE", "vocab": {"a".repeat(513): 0}, "merges": []})),
        ),
        ("UnkId", refusal(|f| f["model"]["unk_id"] = json!(1_000_000))),
        ("version", refusal(|f| f["version"] = json!("2.0"))),
        ("invalid length", refusal(|f| *f = json!([1]))),
    ];
    for (part, message) in cases {
        assert!(message.contains(part), "{part}: {message}");
    }
    for bytes in [&b""[..], b"{}", b"\xFF\xFE", b"{\"model\":{\"type\":\"Unigram\"}}", &[b'['; 100_000]] {
        assert!(matches!(Tokenizer::from_bytes(bytes), Err(Error::Checkpoint { .. })));
    }
}

#[test]
fn a_character_without_unknown_token_is_an_error() {
    let mut json = tiny("mt5/tokenizer.json");
    json["model"]["unk_id"] = Value::Null;
    let tokenizer = load(&json).unwrap();
    assert!(matches!(tokenizer.encode("\u{10FFFD}"), Err(Error::Checkpoint { .. })));
}

/// A file small enough to be changed at any place, with the real character map.
static SMALL: LazyLock<Value> = LazyLock::new(|| {
    let mut json = tiny("mt5/tokenizer.json");
    json["model"]["vocab"].as_array_mut().unwrap().truncate(40);
    for (i, token) in json["added_tokens"].as_array_mut().unwrap().iter_mut().enumerate().skip(3) {
        token["id"] = json!(37 + i);
    }
    json
});

#[test]
fn the_small_file_is_good() {
    assert!(load(&SMALL).unwrap().encode("a <<LABEL>> b").is_ok());
}

/// Replaces the `n`-th value of a JSON document, counted depth first.
fn replace(value: &mut Value, n: &mut usize, with: &Value) -> bool {
    if *n == 0 {
        *value = with.clone();
        return true;
    }
    *n -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| replace(item, n, with)),
        Value::Object(map) => map.values_mut().any(|item| replace(item, n, with)),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_changed_file_panics(
        n in prop_oneof![0_usize..60, 60_usize..300],
        with in prop_oneof![
            Just(json!(null)), Just(json!(0)), Just(json!(-1)), Just(json!(4_294_967_295_u32)), Just(json!(1e300)),
            Just(json!("")), Just(json!("<unk>")), Just(json!("Sequence")), Just(json!([])), Just(json!({})),
            Just(json!(true)), Just(json!("AAAA")), Just(json!({"type": "Metaspace"})),
        ],
    ) {
        let mut json = SMALL.clone();
        replace(&mut json, &mut n.clone(), &with);
        if let Ok(tokenizer) = load(&json) {
            let _ = tokenizer.encode("a <<LABEL>> ﬁne 🚀 </s>\n");
        }
    }

    #[test]
    fn no_damaged_character_map_panics(changes in proptest::collection::vec((0_usize..4000, 0_usize..64), 1..4)) {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut json = SMALL.clone();
        let mut map = json["normalizer"]["precompiled_charsmap"].as_str().unwrap().as_bytes().to_vec();
        for (at, character) in changes {
            map[at] = ALPHABET[character];
        }
        json["normalizer"]["precompiled_charsmap"] = json!(String::from_utf8(map).unwrap());
        if let Ok(tokenizer) = load(&json) {
            let _ = tokenizer.encode("a ﬁne ① ½ café Ｆｕｌｌ é\u{301} 한국어 🚀 \u{1}\u{7f}");
        }
    }

    #[test]
    fn no_damaged_byte_panics(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3)) {
        let mut bytes = serde_json::to_vec(&*SMALL).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(tokenizer) = Tokenizer::from_bytes(&bytes) {
            let _ = tokenizer.encode("a <<LABEL>> b");
        }
    }
}

#[test]
fn every_file_of_the_fixtures_loads() {
    for name in ["mt5/tokenizer.json", "mt5-fp8/tokenizer.json"] {
        Tokenizer::from_bytes(&std::fs::read(tiny_path(name)).unwrap()).unwrap();
    }
}
