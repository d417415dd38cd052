//! Probes, counters, facts, pages.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};

use dikast_core::cpu::CpuBackend;
use dikast_core::request::Json;
use dikast_server::{Config, ModelSource, ServeError, Server};

use crate::support::{at, clef_files, config, get, list, map, metric, noul, post, send, shared, short};

/// ops-01, the part while weights load.
#[test]
fn the_port_is_open_before_the_models_are_ready() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let device = {
        let gate = gate.clone();
        move || {
            let opened = gate.0.lock().expect("no panic inside");
            drop(gate.1.wait_while(opened, |opened| !*opened).expect("no panic inside"));
            Ok(CpuBackend::new())
        }
    };
    let model = ModelSource::new("slow", clef_files(), device);
    let server = Server::start(config(), vec![model]).expect("it starts");
    let address = server.address();
    assert_eq!((get(address, "/livez").status, get(address, "/readyz").status), (200, 503));
    assert_eq!(get(address, "/readyz").at("models.slow").as_str(), Some("loading"));
    let early = post(address, "/v1/systemone", &noul("x"));
    assert_eq!((early.status, early.at("error.code").as_str()), (503, Some("loading")));
    assert_eq!(get(address, "/v1/models").at("data.0.id").as_str(), Some("slow"));
    *gate.0.lock().expect("no panic inside") = true;
    gate.1.notify_all();
    assert!(server.wait_ready());
    assert_eq!(get(address, "/readyz").status, 200);
    assert_eq!(post(address, "/v1/systemone", &noul("x")).status, 200);
    server.stop();
    assert!(server.join().is_ok());
}

#[test]
fn a_model_that_does_not_load_ends_the_server() {
    let broken =
        ModelSource::new("broken", dikast_core::checkpoint::ModelFiles::from_memory("broken", []), || {
            Ok(CpuBackend::new())
        });
    let server = Server::start(config(), vec![broken]).expect("it starts");
    assert!(!server.wait_ready());
    let outcome = server.join();
    assert!(matches!(&outcome, Err(ServeError::Model { id, .. }) if id == "broken"), "{outcome:?}");
}

#[test]
fn ids_of_requests_come_back() {
    let ask = |id: &str| send(shared(), "GET", "/livez", &[("x-request-id", id)], b"");
    assert_eq!(ask("abc-123").header("x-request-id"), Some("abc-123"));
    assert_eq!(ask("abc-123").header("x-typesafe-request-id"), Some("abc-123"));
    for bad in ["", "a b", &"x".repeat(129)] {
        let own = ask(bad).header("x-request-id").map(str::to_owned).expect("an id");
        assert!(own != bad && own.len() == 16, "{own}");
    }
    let refused = send(shared(), "POST", "/v1/systemone", &[("x-request-id", "r1")], b"{}");
    assert_eq!(refused.header("x-request-id"), Some("r1"));
}

#[test]
fn models_are_listed_for_both_families_of_sdks() {
    let all = get(shared(), "/v1/models").json();
    let names = |path: &str, key: &str| -> Vec<String> {
        list(&at(&all, path)).iter().map(|m| at(m, key).as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names("data", "id"), ["clef-tiny", "gliclass-mini"]);
    assert_eq!(names("models", "name"), ["clef-tiny", "gliclass-mini"]);
    assert!(names("models", "release_date").iter().all(|date| date.len() == 10));
    assert_eq!(get(shared(), "/v1/models/gliclass-mini").at("id").as_str(), Some("gliclass-mini"));
    assert_eq!(get(shared(), "/v1/models/@cf/cloudflare/clef").at("id").as_str(), Some("clef-tiny"));
    let missing = get(shared(), "/v1/models/other");
    assert_eq!((missing.status, missing.at("error.type").as_str()), (404, Some("not_found_error")));
}

#[test]
fn answers_name_the_served_model_and_the_receipt_says_more() {
    let reply =
        send(shared(), "POST", "/v1/systemone", &[("x-dikast-receipt", "true")], noul("x").as_bytes());
    assert_eq!(reply.at("model").as_str(), Some("clef-tiny"));
    assert_eq!(reply.at("x_receipt.backend").as_str(), Some("cpu"));
    assert!(reply.at("x_receipt.build").as_str().is_some_and(|b| b.starts_with("dikast ")));
    let header = reply.header("x-dikast-receipt").expect("the same as a header");
    assert_eq!(header, reply.at("x_receipt").to_string());
    assert!(reply.header("x-queue-ms").is_some() && reply.header("x-inference-ms").is_some());
    assert_eq!(post(shared(), "/v1/systemone", &noul("x")).at("x_receipt"), Json::Null);
}

/// Every route gives the receipt, with the digest that `dikast inspect --digest` prints.
#[test]
fn receipts_come_with_every_form() {
    let ask = |path: &str, body: &str| {
        let address = if path == "/gliclass" { short() } else { shared() };
        let reply = send(address, "POST", path, &[("x-dikast-receipt", "true")], body.as_bytes());
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        Json::parse(reply.header("x-dikast-receipt").expect("a receipt")).expect("JSON")
    };
    let cut = r#"{"texts":["one","TEXT"],"labels":["a","b"],"truncate":true}"#
        .replace("TEXT", &"far too long a text ".repeat(400));
    crate::support::until("the digest is there", || {
        at(&ask("/gliclass", &cut), "checkpoint_digest").as_str().is_some_and(|digest| digest.len() == 64)
    });
    let labels = ask("/gliclass", &cut);
    let number = |path: &str| at(&labels, path).as_f64().expect("a number");
    assert!(number("dropped_text_tokens") > 0.0 && number("tokens") > 256.0, "{labels}");
    assert_eq!(at(&labels, "device").as_str().map(str::is_empty), Some(false));
    let openai = r#"{"model":"clef","input":"x","questions":[{"type":"predicate","instructions":"Is it?"}]}"#;
    assert_eq!(at(&ask("/v1/decisions", openai), "model").as_str(), Some("clef-tiny"));
    let path = "/client/v4/accounts/a/ai/run/@cf/cloudflare/clef";
    assert!(at(&ask(path, &noul("x")), "build").as_str().is_some());
    let digest = get(short(), "/info").at("models.0.checkpoint_digest");
    assert_eq!(digest, at(&labels, "checkpoint_digest"));
}

#[test]
fn any_model_means_the_default_one() {
    let server = crate::support::start(Config { any_model: true, ..config() }, vec![crate::support::clef()]);
    let body = noul("x").replace("clef", "gpt-7");
    let reply = post(server.address(), "/v1/systemone", &body);
    assert_eq!((reply.status, reply.at("model").as_str()), (200, Some("clef-tiny")));
    server.stop();
    assert!(server.join().is_ok());
}

#[test]
fn tokens_are_counted_as_they_are_read() {
    let body = noul("calm");
    let used = post(shared(), "/v1/systemone", &body).at("usage.input_tokens");
    let counted = post(shared(), "/v1/tokenize", &body);
    assert_eq!((counted.status, counted.at("count")), (200, used));
    let ids = post(shared(), "/v1/tokenize", r#"{"model":"gliclass-mini","text":["a ship","a"]}"#);
    assert_eq!(list(&ids.at("tokens")).len(), 2);
    assert!(list(&ids.at("tokens.0")).len() > list(&ids.at("tokens.1")).len());
    assert_eq!(post(shared(), "/v1/tokenize", r#"{"model":"other","text":"a"}"#).status, 404);
}

#[test]
fn counters_have_their_names() {
    assert_eq!(post(shared(), "/v1/systemone", &noul("counted")).status, 200);
    let text = get(shared(), "/metrics").body;
    for name in [
        "decisions_requests_total",
        "decisions_request_duration_seconds_bucket",
        "decisions_queue_duration_seconds_bucket",
        "decisions_tokenize_duration_seconds_bucket",
        "decisions_inference_duration_seconds_bucket",
        "decisions_batch_size_bucket",
        "decisions_batch_tokens_bucket",
        "decisions_queue_depth",
        "decisions_model_ready",
        "decisions_input_tokens_total",
        "decisions_questions_total",
        "decisions_truncated_total",
        "decisions_state_cache_hits_total",
        "decisions_state_cache_bytes",
        "build_info",
    ] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name}");
    }
    assert!(metric(shared(), "decisions_questions_total{type=\"noul\"}") >= 1.0);
    assert_eq!(metric(shared(), "decisions_model_ready{model=\"clef-tiny\"}"), 1.0);
}

#[test]
fn facts_say_how_it_answers() {
    let info = get(shared(), "/info").json();
    assert_eq!(
        (at(&info, "confidence").as_str(), at(&info, "decimals").to_string()),
        (Some("typesafe"), "6".into())
    );
    assert_eq!(at(&info, "models.0.backend").as_str(), Some("cpu"));
}

#[test]
fn unknown_routes_and_methods_say_so() {
    let missing = get(shared(), "/v2/systemone");
    assert_eq!((missing.status, missing.at("error.type").as_str()), (404, Some("not_found_error")));
    let method = get(shared(), "/v1/systemone");
    assert_eq!((method.status, method.header("allow")), (405, Some("POST")));
    assert!(method.at("error.message").as_str().is_some());
    let page = get(shared(), "/");
    assert!(page.body.contains("<title>Dikast</title>") && page.header("content-security-policy").is_some());
    let docs = get(shared(), "/docs");
    assert!(docs.body.contains("openapi.json") && docs.header("content-security-policy").is_some());
    let other = post(shared(), "/v1/systemone", r#"{"model":"clef","input":"x","questions":[]}"#);
    assert_eq!(other.status, 422);
    assert!(other.body.contains("/v1/decisions"), "{}", other.body);
}

/// The document lists the routes that answer, and every reference in it leads somewhere.
#[test]
fn the_openapi_document_is_whole() {
    let document = get(shared(), "/openapi.json").json();
    assert_eq!(at(&document, "openapi").as_str(), Some("3.1.0"));
    let mut operations = BTreeSet::new();
    for (path, methods) in map(&at(&document, "paths")) {
        let path = path.replace("{account}", "a").replace("{model}", "m").replace("{id}", "i");
        for (method, operation) in map(methods) {
            let id = at(operation, "operationId");
            assert!(operations.insert(id.to_string()), "{id} stands twice");
            let body: &[u8] = if method == "post" { b"{}" } else { b"" };
            let reply = send(shared(), &method.to_uppercase(), &path, &[], body);
            // A route of the server answers with something else than "no such route".
            assert!(
                !reply.body.contains("no such route") && reply.status != 405,
                "{method} {path}: {reply:?}"
            );
            let status = format!("responses.{}", reply.status);
            assert_ne!(at(operation, &status), Json::Null, "{method} {path} answers {}", reply.status);
        }
    }
    references(&document, &document);
}

fn references(document: &Json, value: &Json) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| references(document, item)),
        Json::Object(entries) => {
            for (key, item) in entries {
                if let ("$ref", Some(target)) = (key.as_str(), item.as_str()) {
                    let path = target.trim_start_matches("#/").replace('/', ".");
                    assert_ne!(at(document, &path), Json::Null, "{target}");
                }
                references(document, item);
            }
        }
        _ => {}
    }
}
