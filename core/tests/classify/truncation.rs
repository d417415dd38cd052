//! Refusing, cutting the text, cutting on the right.

use super::fixture::{TINY, TOKENIZER, attended_ids, config, request, simple, tiny};
use dikast_core::Error;
use dikast_core::models::gliclass::GliClassConfig;
use dikast_core::request::{ClassifyRequest, Example, Strictness, Truncation};
use dikast_core::tokens::Sequence;
use dikast_core::tokens::gliclass::{Prepared, prepare};
use proptest::prelude::*;

const LIMIT: usize = 1024;

fn golden(id: &str) -> serde_json::Value {
    let goldens = tiny("goldens/mt5-f32.json");
    goldens["requests"].as_array().unwrap().iter().find(|golden| golden["id"] == id).unwrap().clone()
}

fn cut(
    config: &GliClassConfig,
    request: &ClassifyRequest,
    limit: usize,
    how: Truncation,
) -> dikast_core::Result<Prepared> {
    let request = ClassifyRequest { max_tokens: Some(limit), truncation: how, ..request.clone() };
    prepare(config, &TOKENIZER, &request, LIMIT)
}

#[test]
fn the_limit_is_exact() {
    let request = simple("The train leaves at nine.", &["transport", "sport"]);
    let whole = prepare(&TINY, &TOKENIZER, &request, LIMIT).unwrap().sequences[0].ids.len();
    for how in [Truncation::Refuse, Truncation::Text, Truncation::Right] {
        for limit in [whole, whole + 1] {
            assert_eq!(cut(&TINY, &request, limit, how).unwrap().dropped_text_tokens, 0);
        }
    }
    let error = cut(&TINY, &request, whole - 1, Truncation::Refuse).unwrap_err();
    let expected =
        Error::TooLarge { what: "input tokens".into(), limit: whole as u64 - 1, actual: whole as u64 };
    assert_eq!(error, expected);
    assert_eq!(cut(&TINY, &request, whole - 1, Truncation::Text).unwrap().dropped_text_tokens, 1);
    // A request may only lower the engine's limit.
    assert!(matches!(cut(&TINY, &request, LIMIT + 1, Truncation::Text), Err(Error::TooLarge { .. })));
    assert!(matches!(prepare(&TINY, &TOKENIZER, &request, whole - 1), Err(Error::TooLarge { .. })));
}

#[test]
fn cutting_the_text_is_the_reference_while_the_text_stands_last() {
    let golden = golden("text-truncated-64");
    let mut request = request(&golden, 0);
    request.truncation = Truncation::Text;
    let prepared = prepare(&TINY, &TOKENIZER, &request, LIMIT).unwrap();
    assert_eq!(prepared.sequences[0].ids, attended_ids(&golden, 0));
    let whole = cut(&TINY, &request, LIMIT, Truncation::Refuse).unwrap().tokens;
    assert_eq!(prepared.dropped_text_tokens, whole - 64);
    assert_eq!(u64::from(prepared.sequences[0].dropped_text_tokens), whole - 64);
    let right = cut(&TINY, &request, 64, Truncation::Right).unwrap();
    assert_eq!(right, prepared);
}

#[test]
fn labels_are_never_cut_in_silence() {
    let golden = golden("labels-truncated-32");
    let request = request(&golden, 0);
    let Error::TooLarge { what, limit: 32, actual } = cut(&TINY, &request, 32, Truncation::Text).unwrap_err()
    else {
        panic!("too large")
    };
    assert!(what.contains("besides the text"));
    // Labels, separator and end token; the smallest limit that works keeps no text at all.
    let bare = cut(&TINY, &request, actual as usize, Truncation::Text).unwrap();
    assert_eq!(bare.sequences[0].ids.len() as u64, actual);
    let no_text = ClassifyRequest { text: String::new(), ..request.clone() };
    assert_eq!(
        bare.sequences[0].ids,
        cut(&TINY, &no_text, LIMIT, Truncation::Refuse).unwrap().sequences[0].ids
    );

    let right = cut(&TINY, &request, 32, Truncation::Right).unwrap();
    assert_eq!(right.sequences[0].ids, attended_ids(&golden, 0));
    // Six markers are left; of the sixth label a part.
    let lost: Vec<usize> = (6..40).collect();
    assert!(right.cut_labels.ends_with(&lost) && right.cut_labels.len() <= lost.len() + 1);
    assert!(right.sequences[0].classes[6..].iter().all(|span| span.start == span.end));
    assert_eq!(cut(&TINY, &request, 1, Truncation::Right).unwrap().sequences[0].ids, [1]);
}

/// What must survive: everything but the text.
fn around_text(sequence: &Sequence, plain: &Sequence) -> bool {
    let mut left = sequence.ids.iter();
    plain.ids.iter().all(|id| left.any(|kept| kept == id))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cutting_the_text_keeps_everything_else(
        words in proptest::collection::vec("[a-z]{1,8}|[а-я]{1,5}| |\\n|🚀", 0..60),
        prompt in "[a-z: ]{0,12}",
        examples in 0_usize..3,
        text_first: bool,
        limit in 20_usize..120,
    ) {
        let name = if text_first { "variants/simple-avg-textfirst/config.json" } else { "mt5/config.json" };
        let config = config(&tiny(name));
        let example = Example { text: "Nice!".into(), labels: vec!["good".into(), "fast".into()] };
        // A space keeps the prompt's tokens apart from the text's.
        let request = ClassifyRequest {
            prompt: Some(format!("{prompt} ")),
            examples: vec![example; examples],
            strictness: Strictness { allow_empty_labels: true, ..Strictness::default() },
            ..simple(&words.concat(), &["space", "", "sports"])
        };
        let plain = ClassifyRequest { text: String::new(), ..request.clone() };
        let plain = cut(&config, &plain, LIMIT, Truncation::Refuse).unwrap();
        let whole = cut(&config, &request, LIMIT, Truncation::Refuse).unwrap();
        match cut(&config, &request, limit, Truncation::Text) {
            Ok(prepared) => {
                let sequence = &prepared.sequences[0];
                prop_assert_eq!(whole.tokens, prepared.tokens + prepared.dropped_text_tokens);
                prop_assert_eq!(sequence.ids.len(), limit.min(whole.sequences[0].ids.len()));
                prop_assert!(around_text(sequence, &plain.sequences[0]));
                prop_assert!(sequence.classes.iter().all(|span| span.end > span.start));
            }
            Err(Error::TooLarge { actual, .. }) => {
                prop_assert!(limit < plain.sequences[0].ids.len());
                prop_assert_eq!(actual, plain.tokens);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
fn input_far_over_the_limit_is_not_tokenized_whole() {
    // One character that becomes 18.
    let ligatures = "\u{fdfa}".repeat(300_000);
    let far = |text: &str, labels: &[&str]| match cut(&TINY, &simple(text, labels), 64, Truncation::Refuse) {
        Err(Error::TooLarge { what, limit: 64, actual }) => {
            assert_eq!(what, "input tokens, at least");
            actual
        }
        other => panic!("{other:?}"),
    };
    // The count of the first piece, not that of the text.
    assert!((129..200_000).contains(&far(&ligatures, &["a"])));
    assert!(far(&"some words ".repeat(10_000), &["a"]) < 20_000);
    let many: Vec<String> = (0..4000).map(|i| format!("label number {i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    far("", &many);
    let error = cut(&TINY, &simple("", &many), 64, Truncation::Text).unwrap_err().to_string();
    assert!(error.contains("besides the text"), "{error}");
}

#[test]
fn a_long_text_is_cut_as_if_it_were_tokenized_whole() {
    let text = "The train to Zürich leaves at nine, and ½ of 3 trains is late. ".repeat(4000);
    let request = simple(&text, &["transport", "sport"]);
    let short = simple(&text[..20_000], &["transport", "sport"]);
    let whole = TOKENIZER.encode(&text).unwrap().ids.len() as u64;
    for how in [Truncation::Text, Truncation::Right] {
        let prepared = cut(&TINY, &request, 200, how).unwrap();
        assert_eq!(prepared.sequences[0].ids, cut(&TINY, &short, 200, how).unwrap().sequences[0].ids);
        let bare = cut(&TINY, &simple("", &["transport", "sport"]), 200, how).unwrap().tokens;
        assert_eq!(prepared.dropped_text_tokens, whole - (200 - bare));
    }
    // Much text, few tokens.
    let blank = simple(&" ".repeat(100_000), &["a", "b"]);
    assert!(cut(&TINY, &blank, 64, Truncation::Refuse).is_ok());
}
