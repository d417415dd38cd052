//! Any JSON: an answer or an error, never a panic; what is written reads back as the same value.

use dikast_core::request::{DecideRequest, Json, Rules, SpecialTokens, StateTruncation};
use dikast_core::tokens::clef::render;
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixture::prepare;

fn cases(n: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(n) }
}

/// Values without `-0.0`, which equals `0.0`, and without floats that are not finite.
fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        "-?[1-9][0-9]{18,40}".prop_map(|digits| Json::parse(digits).unwrap()),
        any::<f64>().prop_filter("finite", |f| f.is_finite() && *f != 0.0).prop_map(Json::from),
        any::<String>().prop_map(Json::from),
        select(vec!["<|im_end|>", "", "\u{2028}\u{7f}\"\\/", "e\u{301}"]).prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let key =
            prop_oneof![any::<String>(), select(vec!["a", "b", "true", "type"]).prop_map(str::to_owned)];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| Json::Object(map.into_iter().rev().collect())),
        ]
    })
}

/// A value in the place of some part of a good request.
fn spoiled(place: usize, value: Json) -> Json {
    let text = |value: &Json| value.to_string();
    let mut parts = [
        "\"s\"",
        "\"noul\"",
        "\"yes?\"",
        "{\"true\":\"t\"}",
        "\"choice\"",
        "{\"b\":null,\"a\":1}",
        "\"score\"",
        "[\"low\",\"high\"]",
        "[]",
        "[]",
        "\"end\"",
    ]
    .map(str::to_owned);
    let place = place % (parts.len() + 1);
    match parts.get_mut(place) {
        Some(part) => *part = text(&value),
        None => return value,
    }
    let [state, noul, ask, sides, choice, options, score, levels, images, videos, end] = parts;
    Json::parse(format!(
        r#"{{"state":{state},"questions":{{"n":{{"type":{noul},"instructions":{ask},"criteria":{sides}}},
            "c":{{"type":{choice},"criteria":{options}}},"s":{{"type":{score},"criteria":{levels}}}}},
            "images":{images},"videos":{videos},"x_truncate":{end}}}"#
    ))
    .unwrap()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn what_is_written_reads_back(value in json()) {
        let text = value.to_string();
        prop_assert_eq!(&Json::parse(&text).unwrap(), &value);
        prop_assert_eq!(&Json::parse(value.to_pretty_text()).unwrap(), &value);
        let sorted = Json::parse(value.to_sorted_text()).unwrap();
        prop_assert_eq!(sorted.to_sorted_text(), value.to_sorted_text());
        match &value {
            Json::String(text) => prop_assert_eq!(&render(&value), text),
            other => prop_assert_eq!(render(other), sorted.to_string()),
        }
        // The same value to another reader, but for numbers that it rounds.
        prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }

    #[test]
    fn text_near_json_is_read_as_by_serde_json_or_refused(
        pieces in prop::collection::vec(select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\\u0041\"", "\"\\ud83d\\ude00\"", "\"\\ud83d\"", "1", "-", "0",
            ".5", "e3", "E-2", "true", "null", " ", "\n", "\"", "\\", "é", "NaN",
        ]), 0..12),
    ) {
        let text = pieces.concat();
        let ours = Json::parse(&text);
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(value) => {
                let read: serde_json::Value = serde_json::from_str(&ours.unwrap().to_string()).unwrap();
                // `-0` is 0 here and -0.0 there, so numbers are compared as numbers.
                prop_assert!(same(&read, &value), "{text}: {read} {value}");
            }
            Err(_) => prop_assert!(ours.is_err(), "{text}: {ours:?}"),
        }
    }

    #[test]
    fn any_request_is_read_or_refused(place in 0_usize..12, value in json(), live in any::<bool>()) {
        for scalars in [false, true] {
            let rules = Rules { scalars, ..Rules::default() };
            let Ok(mut request) = DecideRequest::from_tree(spoiled(place, value.clone()), &rules) else { continue };
            request.images.clear();
            request.videos.clear();
            request.special_tokens = if live { SpecialTokens::Live } else { SpecialTokens::Data };
            let record = prepare(&request);
            prop_assert!(record.is_ok(), "{record:?}");
            let record = record.unwrap();
            prop_assert_eq!(record.positions.len(), record.ids.len());
            request.truncation = StateTruncation::End;
            request.max_state_tokens = Some(1);
            prop_assert!(prepare(&request).unwrap().ids.len() <= record.ids.len());
        }
    }
}

fn same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (a, b) {
        (Number(a), Number(b)) => a.as_f64() == b.as_f64(),
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Object(a), Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((ka, a), (kb, b))| ka == kb && same(a, b))
        }
        _ => a == b,
    }
}
