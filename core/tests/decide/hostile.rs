//! Requests that are refused: each with the field, what was found and what is allowed.

use std::fmt::Write as _;

use dikast_core::request::{
    Criteria, DecideRequest, Json, MediaLimits, Question, Rules, Side, StateTruncation, Video,
};
use dikast_core::{Error, Result};

const HOSTS: &str = "https://example.com/a.png";

/// A request with one question of that JSON.
fn question(question: &str) -> String {
    format!(r#"{{"state":"s","questions":{{"q":{question}}}}}"#)
}

/// A good request with more fields.
fn with(fields: &str) -> String {
    format!(r#"{{"state":"s","questions":{{"q":{{"type":"noul"}}}},{fields}}}"#)
}

fn invalid(text: &str) -> (String, String) {
    match DecideRequest::from_json(text) {
        Err(Error::InvalidRequest { field, message }) => (field, message),
        other => panic!("{text}: {other:?}"),
    }
}

fn too_large(result: Result<DecideRequest>) -> (String, u64, u64) {
    match result {
        Err(Error::TooLarge { what, limit, actual }) => (what, limit, actual),
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_requests_name_the_field() {
    for (text, field, part) in [
        ("[]".to_owned(), "request", "a list found"),
        ("\"state\"".to_owned(), "request", "a string found"),
        ("{}".to_owned(), "state", "missing"),
        ("{\"state\":1}".to_owned(), "questions", "missing"),
        ("{\"state\":1,\"questions\":null}".to_owned(), "questions", "null found"),
        ("{\"state\":1,\"questions\":{}}".to_owned(), "questions", "none found"),
        ("{\"state\":1,\"questions\":[]}".to_owned(), "questions", "a list found, a map"),
        ("{\"state\":1,\"questions\":{\"\":{\"type\":\"noul\"}}}".to_owned(), "questions", "an empty id"),
        (question("3"), "questions.q", "a number found"),
        (question("{}"), "questions.q.type", "noul, choice or score"),
        (question("{\"type\":\"box\"}"), "questions.q.type", "\"box\" found, noul, choice or score"),
        (question("{\"type\":[]}"), "questions.q.type", "a list found, noul, choice or score"),
        (question("{\"type\":\"noul\",\"criteria\":[]}"), "questions.q.criteria", "a list found"),
        (question("{\"type\":\"noul\",\"criteria\":{\"True\":1}}"), "questions.q.criteria", "\"True\""),
        (question("{\"type\":\"choice\"}"), "questions.q.criteria", "missing"),
        (question("{\"type\":\"choice\",\"criteria\":{}}"), "questions.q.criteria", "no options"),
        (question("{\"type\":\"choice\",\"criteria\":[\"a\"]}"), "questions.q.criteria", "{\"a\": null"),
        (question("{\"type\":\"choice\",\"criteria\":\"a|b\"}"), "questions.q.criteria", "a string found"),
        (question("{\"type\":\"score\",\"criteria\":null}"), "questions.q.criteria", "missing"),
        (question("{\"type\":\"score\",\"criteria\":[]}"), "questions.q.criteria", "no levels"),
        (question("{\"type\":\"score\",\"criteria\":{\"0\":1}}"), "questions.q.criteria", "type choice"),
        (question("{\"type\":\"score\",\"criteria\":[\"a\",null]}"), "questions.q.criteria[1]", "null found"),
        (question("{\"type\":\"score\",\"criteria\":[[1e999]]}"), "questions.q.criteria[0]", "64-bit"),
        (with("\"model\":1"), "model", "a number found"),
        (with("\"stream\":true"), "stream", "nothing is streamed"),
        (with("\"x_truncate\":\"start\""), "x_truncate", "\"end\" is allowed"),
        (with("\"x_truncate\":true"), "x_truncate", "\"end\" is allowed"),
        (with("\"assets\":{\"a\":{}}"), "assets", "images"),
        (with("\"audio\":[\"\"]"), "audio", "not supported"),
    ] {
        let (found, message) = invalid(&text);
        assert_eq!(found, field, "{text}: {message}");
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn what_is_not_json_says_where() {
    let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
    for (text, part) in [
        ("", "line 1, byte 1"),
        ("{\"state\":\n NaN}", "line 2, byte 2: NaN is no JSON number"),
        ("[Infinity]", "Infinity is no JSON number"),
        ("[-Infinity]", "Infinity is no JSON number"),
        ("[1,]", "this starts no value"),
        ("[1 2]", "a comma or the end of the list"),
        ("{\"a\" 1}", "a colon"),
        ("{a:1}", "a key in double quotes"),
        ("{\"a\":1", "a comma or the end of the map"),
        ("[01]", "a number that JSON does not allow"),
        ("[1.]", "a number that JSON does not allow"),
        ("[-]", "a number that JSON does not allow"),
        ("[1e]", "a number that JSON does not allow"),
        ("\"a", "a string without an end"),
        ("\"a\\", "a string without an end"),
        ("\"\\ud800\"", "half a surrogate pair"),
        ("\"\\x\"", "an unknown escape"),
        ("\"a\nb\"", "a control character"),
        ("{} {}", "more text after the value"),
        ("\u{feff}{}", "this starts no value"),
        ("tru", "this starts no value"),
    ] {
        let (field, message) = invalid(text);
        assert_eq!(field, "request", "{text}");
        assert!(message.contains(part), "{text}: {message}");
    }
    let error = DecideRequest::from_json([b'"', 0xFF, b'"']);
    assert!(
        matches!(&error, Err(Error::InvalidRequest { message, .. }) if message.contains("UTF-8")),
        "{error:?}"
    );

    assert!(Json::parse(deep(128)).is_ok());
    for levels in [129, 5000, 1_000_000] {
        let state = format!("{{\"state\":{},\"questions\":{{}}}}", deep(levels));
        let (what, limit, _) = too_large(DecideRequest::from_json(state));
        assert_eq!((what.as_str(), limit), ("levels of nesting in JSON", 128));
    }
    let maps = "{\"a\":".repeat(5000);
    assert_eq!(too_large(DecideRequest::from_json(maps)).0, "levels of nesting in JSON");
}

#[test]
fn huge_numbers_are_read_as_the_reference_does_or_refused() {
    let digits = |n: usize| format!("[{}]", "9".repeat(n));
    assert_eq!(Json::parse(digits(4300)).unwrap().to_string(), digits(4300));
    let error = Json::parse(digits(4301)).map(drop);
    assert_eq!(
        error,
        Err(Error::TooLarge { what: "digits of a whole number".to_owned(), limit: 4300, actual: 4301 })
    );
    let long = format!("[0.{}1]", "0".repeat(5000));
    assert_eq!(Json::parse(long).unwrap().to_string(), "[0.0]");
}

#[test]
fn counts_over_a_limit_say_both_numbers() {
    let mut many = String::from("{\"state\":1,\"questions\":{");
    for i in 0..65 {
        let _ = write!(many, "{}\"q{i}\":{{\"type\":\"noul\"}}", if i == 0 { "" } else { "," });
    }
    many += "}}";
    assert_eq!(too_large(DecideRequest::from_json(many)), ("questions".to_owned(), 64, 65));

    let options = Vec::from_iter((0..256).map(|i| format!("\"o{i}\":null"))).join(",");
    let text = question(&format!("{{\"type\":\"choice\",\"criteria\":{{{options}}}}}"));
    assert_eq!(
        too_large(DecideRequest::from_json(text)),
        ("options of questions.q.criteria".to_owned(), 255, 256)
    );
    let levels = ["\"l\""; 11].join(",");
    let text = question(&format!("{{\"type\":\"score\",\"criteria\":[{levels}]}}"));
    assert_eq!(
        too_large(DecideRequest::from_json(text)),
        ("levels of questions.q.criteria".to_owned(), 10, 11)
    );
    let text = format!("{{\"state\":1,\"questions\":{{\"{}\":{{\"type\":\"noul\"}}}}}}", "i".repeat(1025));
    let (what, limit, actual) = too_large(DecideRequest::from_json(text));
    assert!(what.contains("bytes of the id"), "{what}");
    assert_eq!((limit, actual), (1024, 1025));

    let values = format!("[{}0]", "0,".repeat(1 << 20));
    let (what, limit, _) = too_large(DecideRequest::from_json(values));
    assert_eq!((what.as_str(), limit), ("values in JSON", 1 << 20));
}

#[test]
fn twice_the_same_id_is_refused_in_code() {
    let option = || ("a".to_owned(), Json::Null);
    let request = DecideRequest::new("s", vec![Question::choice("q", "which?", [option(), option()])]);
    let error = request.validate().map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("questions.q.criteria.a") && error.contains("twice")));
    let twice = vec![Question::noul("q", "yes?"), Question::noul("q", "no?")];
    let error = DecideRequest::new("s", twice).validate().map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("questions.q:") && error.contains("twice")));
}

#[test]
fn broken_media_name_their_place() {
    let object = |kind: &str, data: &str| format!("{{\"content_type\":\"{kind}\",\"base64\":\"{data}\"}}");
    for (item, field, part) in [
        (format!("\"{HOSTS}\""), "images[0]", "never fetched"),
        ("\"file:///etc/passwd\"".to_owned(), "images[0]", "never fetched"),
        ("\"data:text/html;base64,AAAA\"".to_owned(), "images[0]", "\"text/html\" found, image/png"),
        ("\"data:image/svg+xml;base64,AAAA\"".to_owned(), "images[0]", "svg"),
        ("\"data:image/png,AAAA\"".to_owned(), "images[0]", "not base64"),
        ("\"data:image/png;base64\"".to_owned(), "images[0]", "without a comma"),
        ("\"data:image/png;base64,A*AA\"".to_owned(), "images[0]", "broken base64"),
        ("\"AAAAA\"".to_owned(), "images[0]", "broken base64"),
        ("\"\"".to_owned(), "images[0]", "no bytes"),
        ("7".to_owned(), "images[0]", "a number found"),
        (object("text/plain", "AAAA"), "images[0].content_type", "\"text/plain\" found"),
        (object("image/png", "not base64"), "images[0]", "broken base64"),
        ("{\"base64\":\"AAAA\"}".to_owned(), "images[0].content_type", "missing"),
        ("{\"content_type\":\"image/png\",\"base64\":1}".to_owned(), "images[0].base64", "a number found"),
    ] {
        let (found, message) = invalid(&with(&format!("\"images\":[{item}]")));
        assert_eq!(found, field, "{item}: {message}");
        assert!(message.contains(part), "{item}: {message}");
    }
    for (videos, field, part) in [
        ("{}", "videos", "a map found"),
        ("[\"AAAA\"]", "videos[0]", "frames"),
        ("[{\"fps\":1}]", "videos[0].frames", "missing"),
        ("[{\"frames\":[\"AAAA\"]}]", "videos[0].fps", "missing"),
        ("[{\"frames\":[],\"fps\":1}]", "videos[0].frames", "no frames"),
        ("[{\"frames\":[\"AAAA\"],\"fps\":\"1\"}]", "videos[0].fps", "a string found"),
        ("[{\"frames\":[\"AAAA\"],\"fps\":0}]", "videos[0].fps", "0 found"),
        ("[{\"frames\":[\"AAAA\"],\"fps\":1e999}]", "videos[0].fps", "inf found"),
        ("[{\"frames\":[\"AAAA\",\"http://x\"],\"fps\":1}]", "videos[0].frames[1]", "never fetched"),
    ] {
        let (found, message) = invalid(&with(&format!("\"videos\":{videos}")));
        assert_eq!(found, field, "{videos}: {message}");
        assert!(message.contains(part), "{videos}: {message}");
    }
}

#[test]
fn media_over_a_limit_are_refused_before_they_are_decoded() {
    let media = MediaLimits { images: 2, image_bytes: 6, bytes: 9, videos: 1, frames: 2 };
    let rules = Rules { media, ..Rules::default() };
    let read = |fields: &str| DecideRequest::from_json_with(with(fields), &rules);
    for (fields, what, limit) in [
        (r#""images":["AAAA","AAAA","AAAA"]"#, "images", 2),
        (r#""images":["AAAAAAAAAAA*"]"#, "bytes of images[0]", 6),
        (r#""images":["AAAAAAAA","AAAAAAAA"]"#, "bytes of all pictures", 9),
        (r#""images":["AAAAAAAA"],"videos":[{"frames":["AAAAAAAA"],"fps":1}]"#, "bytes of all pictures", 9),
        (r#""videos":[{"frames":["AA","AA","AA"],"fps":1}]"#, "videos[0].frames", 2),
        (r#""videos":[1,1]"#, "videos", 1),
    ] {
        let found = too_large(read(fields));
        assert_eq!((found.0.as_str(), found.1), (what, limit), "{fields}");
    }
    assert!(read(r#""images":["AAAAAAAA","AAAA"]"#).is_ok());
}

#[test]
fn every_form_is_read() {
    let request = DecideRequest::from_json(
        r#"{"model":"clef","keep_alive":"5m","stream":false,"assets":{},"audio":[],"id":7,"state":{"a":[1]},
            "images":["data:image/png;base64,AAEC","DATA:IMAGE/JPG;name=x;BASE64,AAEC","AAEC","AAE",
                      {"content_type":"image/webp","base64":"AAEC"}],
            "videos":[{"frames":["AAEC","AAEC"],"fps":2}],"x_truncate":"end",
            "questions":{"b":{"type":"noul","extra":1},"a":{"type":"choice","instructions":"i","criteria":{"z":null,"y":1}},
                         "c":{"type":"score","instructions":[1],"criteria":["low",{"x":1}]},
                         "d":{"type":"noul","criteria":{"false":null}}}}"#
            .replace(r#","AAE","#, ","),
    )
    .unwrap();
    assert_eq!(request.model.as_deref(), Some("clef"));
    assert_eq!(request.truncation, StateTruncation::End);
    assert_eq!(request.images, vec![vec![0, 1, 2]; 4]);
    assert_eq!(request.videos, [Video::Frames { frames: vec![vec![0, 1, 2]; 2], fps: 2.0 }]);
    let ids: Vec<&str> = request.questions.iter().map(|question| question.id.as_str()).collect();
    assert_eq!(ids, ["b", "a", "c", "d"]);
    assert_eq!(request.questions[1].option_ids(), ["z", "y"]);
    assert_eq!(request.questions[1].reading_order(), [1, 0]);
    let side = Criteria::Noul { yes: Side::Default, no: Side::Given(Json::Null) };
    assert_eq!(request.questions[3].criteria, side);
    assert_eq!(request.questions[0].instructions, None);
}

#[test]
fn scalars_pass_only_where_the_rules_say_so() {
    let strict = Rules { scalars: false, ..Rules::default() };
    let state = |state: &str| format!("{{\"state\":{state},\"questions\":{{\"q\":{{\"type\":\"noul\"}}}}}}");
    for (text, field) in [
        (state("null"), "state"),
        (state("1.5"), "state"),
        (state("true"), "state"),
        (question("{\"type\":\"noul\",\"instructions\":1}"), "questions.q.instructions"),
        (question("{\"type\":\"noul\",\"criteria\":{\"true\":1}}"), "questions.q.criteria.true"),
        (question("{\"type\":\"choice\",\"criteria\":{\"a\":false}}"), "questions.q.criteria.a"),
        (question("{\"type\":\"score\",\"criteria\":[1]}"), "questions.q.criteria[0]"),
    ] {
        assert!(DecideRequest::from_json(&text).is_ok(), "{text}");
        match DecideRequest::from_json_with(&text, &strict) {
            Err(Error::InvalidRequest { field: found, message }) => {
                assert_eq!(found, field, "{text}");
                assert!(message.contains("a string, a list or a map"), "{message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in [state("\"\""), state("[]"), question("{\"type\":\"choice\",\"criteria\":{\"a\":null}}")] {
        assert!(DecideRequest::from_json_with(&text, &strict).is_ok(), "{text}");
    }
}

#[test]
fn messages_do_not_repeat_the_state() {
    for text in ["{\"state\":\"secret\",}", "{\"state\":\"secret", "{\"state\":\"secret\"}"] {
        assert!(!format!("{:?}", invalid(text)).contains("secret"));
    }
}
