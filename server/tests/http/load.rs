//! More work than fits, clients who leave, ends under load.

use std::thread;
use std::time::Duration;

use dikast_server::{Config, ServeError};

use crate::device::Controls;
use crate::support::{config, get, metric, noul, open, post, receive, request, send, start, until};

const DEPTH: &str = "decisions_queue_depth{model=\"clef-tiny\"}";

/// A server whose device waits at its gate.
fn gated(config: Config) -> (Controls, dikast_server::Server) {
    let controls = Controls::default();
    let server = start(config, vec![controls.clef()]);
    controls.shut();
    (controls, server)
}

fn body(i: usize) -> String {
    noul(&format!("state number {i}"))
}

#[test]
fn what_does_not_fit_is_refused_and_the_rest_is_answered() {
    let (controls, server) = gated(Config { queue_requests: 4, ..config() });
    let address = server.address();
    let inside: Vec<_> = (0..4)
        .map(|i| {
            let stream = open(address, &request("POST", "/v1/systemone", &[], body(i).as_bytes()));
            until("it is inside", || metric(address, DEPTH) == (i + 1) as f64);
            stream
        })
        .collect();
    assert_eq!(get(address, "/readyz").status, 503);
    assert_eq!(get(address, "/livez").status, 200);
    for i in 4..12 {
        let refused = post(address, "/v1/systemone", &body(i));
        assert_eq!(refused.status, 503, "{refused:?}");
        assert_eq!(refused.at("error.type").as_str(), Some("overloaded_error"));
        let seconds: u64 = refused.header("retry-after").and_then(|v| v.parse().ok()).expect("whole seconds");
        assert!((1..=30).contains(&seconds) && refused.header("retry-after-ms").is_some());
    }
    controls.open();
    assert!(inside.into_iter().all(|stream| receive(stream).status == 200));
    assert_eq!(get(address, "/readyz").status, 200);
    server.stop();
    assert!(server.join().is_ok());
}

/// ops-02
#[test]
fn clients_who_leave_are_not_computed() {
    let (controls, server) = gated(config());
    let address = server.address();
    let first = open(address, &request("POST", "/v1/systemone", &[], body(0).as_bytes()));
    until("the first runs", || controls.arrived() == 2);
    let leaving: Vec<_> =
        (1..=20).map(|i| open(address, &request("POST", "/v1/systemone", &[], body(i).as_bytes()))).collect();
    until("all wait", || metric(address, DEPTH) == 21.0);
    drop(leaving);
    until("they are gone", || metric(address, DEPTH) == 1.0);
    controls.open();
    assert_eq!(receive(first).status, 200);
    assert_eq!(metric(address, DEPTH), 0.0);
    // The warm-up and the first.
    assert_eq!(controls.arrived(), 2);
    let cancelled = "decisions_requests_total{model=\"\",route=\"/v1/systemone\",status=\"cancelled\"}";
    assert_eq!(metric(address, cancelled), 20.0);
    server.stop();
    assert!(server.join().is_ok());
}

/// ops-01, the part after SIGTERM
#[test]
fn an_ending_server_answers_whom_it_let_in() {
    let (controls, server) = gated(config());
    let address = server.address();
    let inside: Vec<_> =
        (0..5).map(|i| open(address, &request("POST", "/v1/systemone", &[], body(i).as_bytes()))).collect();
    until("all are inside", || metric(address, DEPTH) == 5.0);
    server.stop();
    until("it drains", || get(address, "/readyz").status == 503);
    assert_eq!(get(address, "/livez").status, 200);
    let late = post(address, "/v1/systemone", &body(9));
    assert_eq!((late.status, late.at("error.code").as_str()), (503, Some("draining")));
    controls.open();
    for stream in inside {
        let reply = receive(stream);
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    assert!(server.join().is_ok());
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn the_grace_time_is_an_end() {
    let (controls, server) = gated(Config { grace: Duration::from_millis(200), ..config() });
    let address = server.address();
    let stream = open(address, &request("POST", "/v1/systemone", &[], body(0).as_bytes()));
    until("it runs", || controls.arrived() == 2);
    server.stop();
    let outcome = server.join();
    assert!(matches!(outcome, Err(ServeError::Cut { requests: 1 })), "{outcome:?}");
    // Whoever is cut off is told, so that it can ask elsewhere.
    assert_eq!(receive(stream).status, 503);
    controls.open();
}

#[test]
fn deadlines_hold() {
    let (controls, server) = gated(Config { queue_timeout: Duration::from_millis(300), ..config() });
    let address = server.address();
    let running = open(address, &request("POST", "/v1/systemone", &[], body(0).as_bytes()));
    until("it runs", || controls.arrived() == 2);
    let late = send(address, "POST", "/v1/systemone", &[("x-request-timeout", "50ms")], body(1).as_bytes());
    assert_eq!((late.status, late.at("error.code").as_str()), (408, Some("deadline_exceeded")));
    // Without a deadline of its own, a request waits for its turn no longer than the server's limit.
    let late = post(address, "/v1/systemone", &body(2));
    assert_eq!((late.status, late.at("error.code").as_str()), (503, Some("queue_timeout")));
    assert!(late.header("retry-after").is_some());
    let wrong = send(address, "POST", "/v1/systemone", &[("x-request-timeout", "soon")], body(3).as_bytes());
    assert_eq!(wrong.status, 422);
    assert_eq!(metric(address, DEPTH), 1.0);
    // The limit of waiting is over for the first one too, but its turn had begun.
    controls.open();
    assert_eq!(receive(running).status, 200);
    server.stop();
    assert!(server.join().is_ok());
}

/// conc-01: the same bits alone and in company.
#[test]
fn answers_do_not_depend_on_the_load() {
    let (controls, server) = gated(config());
    let address = server.address();
    controls.open();
    let body = |i: usize| noul(&"word ".repeat(i % 7 * 9 + 1).replace("word", &format!("word{i}")));
    let alone: Vec<_> = (0..48).map(|i| post(address, "/v1/systemone", &body(i)).body).collect();
    assert!(alone.iter().collect::<std::collections::HashSet<_>>().len() > 40, "the states differ");
    controls.shut();
    let together: Vec<_> =
        (0..48).map(|i| (i, thread::spawn(move || post(address, "/v1/systemone", &body(i))))).collect();
    until("all wait", || metric(address, DEPTH) == 48.0);
    controls.open();
    for (i, thread) in together {
        let reply = thread.join().expect("an answer");
        assert_eq!((reply.status, &reply.body), (200, &alone[i]), "{i}");
    }
    let batches = metric(address, "decisions_batch_size_count{model=\"clef-tiny\"}");
    assert!(batches < 90.0, "{batches} batches for 96 requests");
    server.stop();
    assert!(server.join().is_ok());
    // Nor on how many devices there are.
    let several = start(config(), vec![Controls::default().clef_on(3)]);
    let address = several.address();
    let together: Vec<_> =
        (0..48).map(|i| (i, thread::spawn(move || post(address, "/v1/systemone", &body(i))))).collect();
    for (i, thread) in together {
        let reply = thread.join().expect("an answer");
        assert_eq!((reply.status, &reply.body), (200, &alone[i]), "{i}");
    }
    several.stop();
    assert!(several.join().is_ok());
}

/// perf-01, the part that is no time: what is too long never comes near the device.
#[test]
fn a_refusal_costs_no_device_time() {
    let (controls, server) = gated(config());
    let arrived = controls.arrived();
    let refused = post(server.address(), "/v1/systemone", &noul(&"far too long ".repeat(20_000)));
    assert_eq!((refused.status, controls.arrived()), (413, arrived), "{refused:?}");
    server.stop();
    assert!(server.join().is_ok());
}
