//! Cases whose bodies have to be built.

use std::io::Write as _;
use std::time::{Duration, Instant};

use dikast_core::request::Json;

use crate::support::{LABEL_TOKENS, Reply, at, list, map, noul, post, send, shared, short};

fn number(json: &Json) -> f64 {
    json.as_f64().unwrap_or_else(|| panic!("no number: {json}"))
}

fn gliclass(texts: &str, rest: &str) -> Reply {
    let body = format!(r#"{{"texts":{texts},"labels":["news","sport"],"threshold":0.0{rest}}}"#);
    post(short(), "/gliclass", &body)
}

/// len-01
#[test]
fn the_truncation_flag_works_in_both_forms() {
    let long = Json::from("a long story about ships ".repeat(100));
    for texts in [format!("[{long},{long}]"), long.to_string()] {
        let refused = gliclass(&texts, "");
        assert_eq!(refused.status, 413, "{refused:?}");
        assert_eq!(refused.at("error_type").as_str(), Some("Validation"));
        let cut = gliclass(&texts, r#","truncate":true"#);
        assert_eq!(cut.status, 200, "{cut:?}");
        assert!(list(&cut.json()).iter().all(|scores| list(scores).len() == 2));
    }
}

/// len-02: at the limit, one below, one over, counted by the server's own route.
#[test]
fn the_limit_itself_is_allowed() {
    let limit = LABEL_TOKENS;
    // One token a word and some around them: found by a request that is too long.
    let text = |words: usize| Json::from(vec!["ship"; words].join(" "));
    let refused = gliclass(&text(1000).to_string(), "");
    let message = refused.at("error");
    let found: usize = message.as_str().and_then(|m| m.rsplit(' ').next()?.parse().ok()).expect("the count");
    let around = found - 1000;
    for (tokens, status) in [(limit - 1, 200), (limit, 200), (limit + 1, 413)] {
        let reply = gliclass(&text(tokens - around).to_string(), "");
        assert_eq!(reply.status, status, "{tokens}: {}", reply.body);
    }
}

/// len-03, len-04
#[test]
fn a_long_state_is_cut_only_when_asked() {
    let filler = "the corridor is long ".repeat(4000);
    let body = |rest: &str| {
        let state = Json::from(format!("{filler} The door code colour is green."));
        format!(
            r#"{{"model":"clef","state":{state}{rest},"questions":{{"c":{{"type":"choice","instructions":"Which colour?","criteria":{{"green":null,"blue":null}}}}}}}}"#
        )
    };
    let start = Instant::now();
    let refused = post(shared(), "/v1/systemone", &body(""));
    assert!(start.elapsed() < Duration::from_secs(60), "it was computed first");
    assert_eq!((refused.status, refused.at("error.code").as_str()), (413, Some("context_length_exceeded")));
    let message = refused.at("error.message").to_string();
    assert!(message.contains("8192"), "{message}");
    assert_eq!(refused.at("detail.error_type").as_str(), Some("context_length_exceeded"));
    let cut = post(shared(), "/v1/systemone", &body(r#","x_truncate":"end""#));
    assert_eq!((cut.status, cut.at("x_truncated")), (200, Json::Bool(true)));
    assert!(number(&cut.at("x_state_tokens")) > number(&cut.at("x_state_tokens_used")));
    assert_eq!(number(&cut.at("usage.input_tokens")), 8192.0);
}

/// len-05
#[test]
fn questions_alone_may_be_too_long() {
    let options: Vec<String> = (0..255).map(|i| format!("\"option number {i}\":null")).collect();
    let question = format!(r#"{{"type":"choice","criteria":{{{}}}}}"#, options.join(","));
    let questions: Vec<String> = (0..64).map(|i| format!("\"q{i}\":{question}")).collect();
    let body = format!(r#"{{"model":"clef","state":"x","questions":{{{}}}}}"#, questions.join(","));
    let reply = post(shared(), "/v1/systemone", &body);
    assert_eq!(reply.status, 413);
    assert!(reply.at("error.message").to_string().contains("questions and media alone"), "{}", reply.body);
}

/// ex-01
#[test]
fn an_example_without_labels_counts() {
    let ask = |rest: &str| {
        let body = format!(
            r#"{{"texts":"The file will not open.","labels":["bug","praise"],"threshold":0.0{rest}}}"#
        );
        post(shared(), "/gliclass", &body)
    };
    let (plain, shown) = (ask(""), ask(r#","examples":[{"text":"Thanks a lot!","labels":[]}]"#));
    assert_eq!((plain.status, shown.status), (200, 200));
    assert_ne!(plain.body, shown.body);
}

/// num-01
#[test]
fn probabilities_never_logits() {
    for n in [3, 30, 255] {
        let names: Vec<String> = (0..n).map(|i| format!("o{i}")).collect();
        let labels = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(",");
        let options = names.iter().map(|name| format!("\"{name}\":null")).collect::<Vec<_>>().join(",");
        let values =
            names.iter().map(|name| format!(r#"{{"value":"{name}"}}"#)).collect::<Vec<_>>().join(",");
        let all = [
            (
                "/v1/systemone",
                format!(
                    r#"{{"model":"clef","state":"x","questions":{{"q":{{"type":"choice","criteria":{{{options}}}}}}}}}"#
                ),
                "answers.q.probabilities",
                "",
            ),
            (
                "/v1/decisions",
                format!(
                    r#"{{"model":"clef","input":"x","questions":[{{"type":"choice","choices":[{values}]}}]}}"#
                ),
                "answers.0.probabilities",
                "probability",
            ),
            ("/gliclass", format!(r#"{{"texts":["x"],"labels":[{labels}],"threshold":0}}"#), "0", "score"),
            ("/classify", format!(r#"{{"input":"x","labels":[{labels}]}}"#), "data.0.probs", ""),
        ];
        for (path, body, at_path, key) in all {
            let reply = post(shared(), path, &body);
            assert_eq!(reply.status, 200, "{path} {n}: {reply:?}");
            let values: Vec<f64> = match &reply.at(at_path) {
                Json::Object(entries) => entries.iter().map(|(_, p)| number(p)).collect(),
                Json::Array(items) if key.is_empty() => items.iter().map(number).collect(),
                other => list(other).iter().map(|item| number(&at(item, key))).collect(),
            };
            assert_eq!(values.len(), n, "{path}");
            assert!(values.iter().all(|p| (0.0..=1.0).contains(p)), "{path}: {values:?}");
            // Sigmoids stand alone.
            if path != "/gliclass" {
                let sum: f64 = values.iter().sum();
                assert!((sum - 1.0).abs() < 1e-3, "{path} {n}: {sum}");
            }
        }
    }
}

/// num-02
#[test]
fn logits_on_request() {
    let ask = |rest: &str| {
        let body = format!(r#"{{"input":"The match ended two to one.","labels":["sport","law"]{rest}}}"#);
        let probs = post(shared(), "/classify", &body).at("data.0.probs");
        list(&probs).iter().map(number).collect::<Vec<_>>()
    };
    let (probabilities, logits) = (ask(""), ask(r#","use_activation":false"#));
    let sum: f64 = logits.iter().map(|l| l.exp()).sum();
    for (p, l) in probabilities.iter().zip(&logits) {
        assert!((p - l.exp() / sum).abs() < 1e-4, "{probabilities:?} {logits:?}");
    }
}

/// enc-01
#[test]
fn compressed_bodies_are_the_same() {
    let body = noul(&"A long line about a payment that never arrives. ".repeat(64));
    assert!(body.len() > 3000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(body.as_bytes()).expect("in memory");
    let gzip = gzip.finish().expect("in memory");
    let zstd =
        ruzstd::encoding::compress_to_vec(body.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    let plain = post(shared(), "/v1/systemone", &body);
    assert_eq!(plain.status, 200, "{plain:?}");
    for (name, bytes) in [("gzip", &gzip), ("zstd", &zstd)] {
        let reply = send(shared(), "POST", "/v1/systemone", &[("content-encoding", name)], bytes);
        assert_eq!((reply.status, &reply.body), (200, &plain.body), "{name}");
    }
}

/// auth-01
#[test]
fn without_keys_any_key_is_ignored() {
    let header = ("authorization", "Bearer anything");
    assert_eq!(send(shared(), "POST", "/v1/systemone", &[header], noul("x").as_bytes()).status, 200);
}

/// Both contracts answer alike, and OpenAI's keeps types.
#[test]
fn decisions_are_the_same_model() {
    let body = r#"{"model":"clef","input":"Two charges for one order","questions":[
        {"type":"predicate","instructions":"Is it?"},
        {"type":"choice","name":"legit","choices":[{"value":true},{"value":false}]},
        {"type":"score","name":"anger","instructions":"How upset?","levels":[{"label":"calm"},{"label":"furious","description":"shouting"}]}]}"#;
    let openai = post(shared(), "/v1/decisions", body);
    assert_eq!(openai.status, 200, "{openai:?}");
    let body = r#"{"model":"clef","state":"Two charges for one order","questions":{
        "q1":{"type":"noul","instructions":"Is it?"},
        "legit":{"type":"choice","criteria":{"true":null,"false":null}},
        "anger":{"type":"score","instructions":"How upset?","criteria":["calm","furious: shouting"]}}}"#;
    let systemone = post(shared(), "/v1/systemone", body);
    assert_eq!(openai.at("answers.0.probability"), systemone.at("answers.q1.noul"));
    assert_eq!(
        openai.at("answers.1.probabilities.0.probability"),
        systemone.at("answers.legit.probabilities.true")
    );
    assert_eq!(openai.at("answers.2.score"), systemone.at("answers.anger.score"));
    assert!(matches!(openai.at("answers.1.choice"), Json::Bool(_)));
    assert_eq!(openai.at("usage.total_tokens"), systemone.at("usage.input_tokens"));
    assert_eq!(map(&systemone.at("answers.anger.legend")).len(), 2);
}

/// The other shapes of zero-shot requests reach the same model.
#[test]
fn zero_shot_forms() {
    let body = r#"{"inputs":"It rained all day.","parameters":{"candidate_labels":["weather","money"]}}"#;
    let first = post(shared(), "/v1/classify/zero-shot", body);
    assert_eq!(first.status, 200, "{first:?}");
    for path in ["/models/gliclass-mini", "/pipeline/zero-shot-classification/gliclass-mini", "/predict", "/"]
    {
        assert_eq!(post(shared(), path, body).body, first.body, "{path}");
    }
    assert_eq!(post(shared(), "/models/other", body).status, 404);
    let sum: f64 = list(&first.json()).iter().map(|s| number(&at(s, "score"))).sum();
    assert!((sum - 1.0).abs() < 1e-3);
    let plain = post(shared(), "/predict", r#"{"inputs":"It rained all day."}"#);
    assert_eq!(number(&plain.at("0.score")), number(&first.at("0.score")));
}

/// A choice goes to a model for labels if that is named.
#[test]
fn choices_on_a_model_for_labels() {
    let body = r#"{"model":"gliclass-mini","state":"It rained all day.","questions":{
        "q":{"type":"choice","criteria":{"weather":null,"money":"banks and prices"}}}}"#;
    let reply = post(shared(), "/v1/systemone", body);
    assert_eq!((reply.status, reply.at("model").as_str()), (200, Some("gliclass-mini")), "{reply:?}");
    assert_eq!(map(&reply.at("answers.q.probabilities")).len(), 2);
    let body = r#"{"model":"gliclass-mini","state":"x","questions":{"q":{"type":"noul"}}}"#;
    let refused = post(shared(), "/v1/systemone", body);
    assert_eq!((refused.status, refused.at("error.code").as_str()), (422, Some("unsupported_question_type")));
}

/// parity-01: scores and their order over HTTP against the reference package's, for every stored case.
#[test]
fn served_scores_are_the_references() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/gliclass-mini/expected.json");
    let stored = Json::parse(std::fs::read_to_string(path).expect("it is there")).expect("JSON");
    let cases = at(&stored, "cases");
    let mut worst: f64 = 0.0;
    for case in list(&cases) {
        let (text, labels) = (at(case, "text"), at(case, "labels"));
        for (multi, field) in [(true, "sigmoid"), (false, "softmax")] {
            let body = format!(
                r#"{{"inputs":{text},"parameters":{{"candidate_labels":{labels},"multi_label":{multi}}}}}"#
            );
            let reply = post(shared(), "/v1/classify/zero-shot", &body);
            assert_eq!(reply.status, 200, "{reply:?}");
            let scores = reply.json();
            assert!(
                list(&scores).windows(2).all(|w| number(&at(&w[0], "score")) >= number(&at(&w[1], "score")))
            );
            for (label, expected) in list(&labels).iter().zip(list(&at(case, field))) {
                let score = list(&scores).iter().find(|s| at(s, "label") == *label).expect("every label");
                worst = worst.max((number(&at(score, "score")) - number(expected)).abs());
            }
        }
    }
    assert!(list(&cases).len() >= 20 && worst < 1e-3, "{} cases, {worst}", list(&cases).len());
}
