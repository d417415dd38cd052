//! Spans as a collector gets them. A program of its own: where spans go holds for a whole process.

#[path = "../http/device.rs"]
#[allow(dead_code, reason = "another program's, which needs more of it")]
mod device;
#[path = "../http/support.rs"]
#[allow(dead_code, reason = "another program's, which needs more of it")]
mod support;

mod collector;

use std::time::Duration;

use dikast_server::{Config, LogFormat, OtlpEndpoint, Traces};

use collector::Collector;
use device::Controls;
use support::{config, get, metric, noul, open, post, receive, request, send, start, until};

const DEPTH: &str = "decisions_queue_depth{model=\"clef-tiny\"}";
/// Stands in states, keys and the path of an account.
const SECRET: &str = "s3cr3t-4711";

/// Sent with `x-request-id: ID`.
fn ask(address: std::net::SocketAddr, id: &str, more: &[(&str, &str)], body: &str) -> u16 {
    let headers = [&[("x-request-id", id), ("authorization", SECRET)], more].concat();
    send(address, "POST", "/v1/systemone", &headers, body.as_bytes()).status
}

#[test]
fn a_collector_gets_the_spans_of_requests_and_nothing_that_callers_sent() {
    let collector = Collector::start();
    let endpoint: OtlpEndpoint = collector.base().parse().expect("an address");
    let traces = Traces::start(&endpoint, LogFormat::Off).expect("it starts");
    let again = Traces::start(&endpoint, LogFormat::Off).expect_err("one a process");
    assert!(again.to_string().contains("go elsewhere"), "{again}");

    let controls = Controls::default();
    let server = start(Config { queue_requests: 2, ..config() }, vec![controls.clef()]);
    let address = server.address();
    let body = noul(SECRET);
    let caller = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_eq!(ask(address, "answered", &[caller], &body), 200);
    assert_eq!(ask(address, "wrong", &[], &body.replace("noul", "null")), 422);
    let ignored = ("traceparent", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
    assert_eq!(ask(address, "not-sampled", &[ignored], &body), 200);
    // Two whose batch waits at the gate: one leaves, one is answered later. The queue is full then.
    controls.shut();
    let arrived = controls.arrived();
    let sent =
        |id| open(address, &request("POST", "/v1/systemone", &[("x-request-id", id)], body.as_bytes()));
    let stays = sent("stays");
    until("it runs", || controls.arrived() == arrived + 1);
    let leaves = sent("leaves");
    until("the other one waits", || metric(address, DEPTH) == 2.0);
    assert_eq!(ask(address, "too-many", &[], &body), 503);
    drop(leaves);
    until("it is gone", || metric(address, DEPTH) == 1.0);
    controls.open();
    assert_eq!(receive(stays).status, 200);
    assert_eq!(send(address, SECRET, "/v1/decisions", &[("x-request-id", "method")], b"").status, 405);
    assert_eq!(
        (get(address, "/livez").status, post(address, &format!("/{SECRET}"), "{}").status),
        (200, 404)
    );
    server.stop();
    assert!(server.join().is_ok());
    traces.end(Duration::from_secs(60));

    let got = collector.end();
    assert!(!got.says(SECRET), "what callers sent");
    assert_eq!(got.resource("service.name").as_deref(), Some("dikast"));
    assert_eq!(got.resource("service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert!(got.spans.iter().all(|span| span.name != "GET /livez"), "probes are left out");

    let answered = got.request("answered");
    assert_eq!((answered.name.as_str(), answered.kind), ("POST /v1/systemone", 2));
    assert_eq!(collector::hex(&answered.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(collector::hex(&answered.parent_span_id), "b7ad6b7169203331");
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/v1/systemone"),
        ("http.response.status_code", "200"),
        ("dikast.model", "clef-tiny"),
        ("dikast.questions", "1"),
    ] {
        assert_eq!(collector::value(answered, name).as_deref(), Some(value), "{name}");
    }
    let tokens = collector::value(answered, "dikast.tokens").expect("counted");
    assert_eq!(collector::value(answered, "error.type"), None);
    let stages = got.children(answered);
    let names: Vec<&str> = stages.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["receive", "tokenize", "queue", "inference", "respond"]);
    let begins = stages.iter().map(|span| span.start_time_unix_nano);
    let ends = stages.iter().map(|span| span.end_time_unix_nano);
    assert!(begins.clone().is_sorted() && ends.clone().is_sorted());
    assert!(begins.zip(ends).all(|(begin, end)| {
        answered.start_time_unix_nano <= begin && begin <= end && end <= answered.end_time_unix_nano
    }));
    for (name, value) in [
        ("dikast.batch.requests", "1"),
        ("dikast.batch.tokens", tokens.as_str()),
        ("dikast.batches", "1"),
        ("dikast.device", "0"),
    ] {
        assert_eq!(collector::value(stages[3], name).as_deref(), Some(value), "{name}");
    }

    let wrong = got.request("wrong");
    assert_eq!(collector::value(wrong, "http.response.status_code").as_deref(), Some("422"));
    assert!(collector::value(wrong, "error.type").is_some() && !collector::failed(wrong));
    assert_eq!(got.children(wrong).len(), 1);
    let refused = got.request("too-many");
    assert_eq!(collector::value(refused, "error.type").as_deref(), Some("queue_full"));
    assert!(collector::failed(refused));
    let left = got.request("leaves");
    assert_eq!(collector::value(left, "error.type").as_deref(), Some("cancelled"));
    assert_eq!(collector::value(left, "http.response.status_code"), None);
    assert_eq!(got.children(left).last().map(|span| span.name.as_str()), Some("queue"));
    assert_eq!(got.children(got.request("stays")).len(), 5);
    assert_eq!(got.request("method").name, "_OTHER /v1/decisions");
    assert!(got.find("not-sampled").is_none(), "the caller's choice");
}
