//! The request cases of `tests/data/cases`: those with a literal body run from the file, the others are tests of their own.

use dikast_core::request::Json;

use crate::support::{at, data, get, list, map, post, shared};

/// Cases that are tests elsewhere in this program, by the file that has them.
const ELSEWHERE: &[(&str, &str)] = &[
    ("err-05", "hostile"),
    ("len-01", "cases_built"),
    ("len-02", "cases_built"),
    ("len-03", "cases_built"),
    ("len-04", "cases_built"),
    ("len-05", "cases_built"),
    ("ex-01", "cases_built"),
    ("num-01", "cases_built"),
    ("num-02", "cases_built"),
    ("enc-01", "cases_built"),
    ("enc-02", "hostile"),
    ("auth-01", "cases_built"),
    ("auth-02", "keys"),
    ("ops-01", "operations and load"),
    ("ops-02", "load"),
    ("conc-01", "load"),
    ("img-02", "media"),
    ("img-03", "media"),
    ("parity-01", "cases_built"),
];

/// Cases that this program does not test, and why.
const NOT_HERE: &[(&str, &str)] = &[
    ("perf-01", "figures in benchmarks/serve; that a refusal costs no device time is in load"),
    ("web-01", "web-demo/test: both paths of the page against goldens, the first answer's time apart"),
];

fn cases() -> Vec<Json> {
    let path = data("cases/requests.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(|line| Json::parse(line).expect("JSON")).collect()
}

fn id(case: &Json) -> String {
    at(case, "id").as_str().expect("an id").to_owned()
}

/// What a literal case expects besides its status; its id decides.
fn check(id: &str, reply: &Json) {
    let text =
        |path: &str| at(reply, path).as_str().unwrap_or_else(|| panic!("{id}: {path}: {reply}")).to_owned();
    let holds = |path: &str, parts: &[&str]| {
        let text = text(path);
        assert!(parts.iter().all(|part| text.contains(part)), "{id}: {text}");
    };
    match id {
        "err-01" => {
            holds("error.message", &["questions.a.criteria", "11", "10"]);
            assert_eq!(at(reply, "detail.0.loc").to_string(), r#"["body","questions","a","criteria"]"#);
            holds("detail.0.msg", &["11", "10"]);
        }
        "err-02" | "err-06" => holds("error.param", &["questions.a.criteria"]),
        "err-03" => holds("error.message", &["noul", "choice", "score"]),
        "err-04" => assert_eq!(text("error.param"), "questions.0.choices"),
        "err-07" => {
            assert_eq!(text("error.type"), "not_found_error");
            holds("error.message", &["clef-tiny", "gliclass-mini"]);
        }
        "env-01" => {
            assert_eq!(at(reply, "success"), Json::Bool(true));
            assert_eq!(
                (at(reply, "errors").to_string(), at(reply, "messages").to_string()),
                ("[]".into(), "[]".into())
            );
            assert!(
                map(&at(reply, "result"))
                    .iter()
                    .map(|(key, _)| key.as_str())
                    .eq(["model", "answers", "usage"])
            );
        }
        "env-02" => {
            assert_eq!((at(reply, "result"), at(reply, "success")), (Json::Null, Json::Bool(false)));
            assert_eq!(at(reply, "errors.0.code").to_string(), "5012");
            holds("errors.0.message", &["questions"]);
        }
        "route-01" => assert_eq!(text("answers.a.type"), "noul"),
        "route-02" => holds("error.message", &["/v1/systemone", "base URL", "/v1"]),
        "route-03" => holds("error.message", &["state", "input", "questions"]),
        "batch-01" => {
            assert_eq!(list(reply).len(), 2);
            assert!(list(reply).iter().all(|scores| list(scores).len() == 2));
        }
        "batch-02" => assert!(list(reply).iter().map(|scores| list(scores).len()).eq([3, 3, 3])),
        "batch-03" => {
            let names = |i: usize| {
                let mut names: Vec<String> =
                    list(&list(reply)[i]).iter().map(|s| at(s, "label").to_string()).collect();
                names.sort_unstable();
                names.join(" ")
            };
            assert_eq!((names(0), names(1)), ("\"food\" \"music\"".into(), "\"service\"".into()));
        }
        "batch-04" => holds("error", &["labels", "2", "3"]),
        "num-03" => {
            assert_eq!(at(reply, "answers.a.probabilities").to_string(), r#"{"only":1.0}"#);
            assert_eq!(at(reply, "answers.a.confidence").to_string(), "1.0");
        }
        "num-05" => {
            assert!(map(&at(reply, "answers")).iter().map(|(key, _)| key.as_str()).eq(["10", "2", "a b/ü"]));
        }
        "img-01" => holds("error.message", &["never fetched"]),
        other => panic!("{other}: no check for this case"),
    }
}

/// Cases whose request is a body. `num-04` allows two statuses and is below.
#[test]
fn literal_cases() {
    let address = shared();
    let mut ran = 0;
    for case in cases() {
        let Json::Integer(status) = at(&case, "expect.status") else { continue };
        if ELSEWHERE.iter().any(|(other, _)| *other == id(&case)) {
            continue;
        }
        let routes = match at(&case, "route") {
            Json::Array(routes) => routes,
            one => vec![one],
        };
        let mut bodies = Vec::new();
        for route in &routes {
            // These cases say nothing of the model's name, which both forms need.
            let mut request = at(&case, "request");
            if let Json::Object(entries) = &mut request
                && id(&case) == "img-01"
            {
                entries.insert(0, ("model".into(), "clef".into()));
            }
            let reply = post(address, route.as_str().expect("a path"), &request.to_string());
            assert_eq!(reply.status.to_string(), status.to_string(), "{}: {reply:?}", id(&case));
            assert_eq!(reply.header("content-type"), Some("application/json"), "{}", id(&case));
            assert!(reply.header("x-request-id").is_some(), "{}", id(&case));
            check(&id(&case), &reply.json());
            bodies.push(reply.body);
        }
        assert!(bodies.iter().all(|body| *body == bodies[0]), "{}: {bodies:?}", id(&case));
        ran += 1;
    }
    assert_eq!(ran, 18, "literal cases");
    assert_eq!(get(address, "/readyz").status, 200);
}

/// env-01: the answers are the same with and without envelope.
#[test]
fn the_envelope_changes_nothing() {
    let cases = cases();
    let case = cases.iter().find(|case| id(case) == "env-01").expect("the case");
    let body = at(case, "request").to_string();
    let route = at(case, "route");
    let inside = post(shared(), route.as_str().expect("a path"), &body).at("result");
    assert_eq!(inside, post(shared(), "/v1/systemone", &body).json());
}

/// num-04: names come back byte for byte.
#[test]
fn option_names_are_opaque() {
    let cases = cases();
    let case = cases.iter().find(|case| id(case) == "num-04").expect("the case");
    let request = at(case, "request");
    let reply = post(shared(), "/v1/systemone", &request.to_string());
    assert_eq!(reply.status, 200, "{reply:?}");
    let names =
        |json: &Json, path: &str| map(&at(json, path)).iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let sent = names(&request, "questions.a.criteria");
    assert_eq!((sent.len(), names(&reply.json(), "answers.a.probabilities")), (5, sent));
}

#[test]
fn no_case_is_left_out() {
    let literal: Vec<String> = cases()
        .iter()
        .filter(|case| matches!(at(case, "expect.status"), Json::Integer(_)))
        .map(id)
        .chain(std::iter::once("num-04".to_owned()))
        .collect();
    for case in cases() {
        let id = id(&case);
        let listed = |all: &[(&str, &str)]| all.iter().any(|(other, _)| *other == id);
        assert!(literal.contains(&id) || listed(ELSEWHERE) || listed(NOT_HERE), "{id} is nowhere");
    }
}
