//! Who may call.

use std::net::SocketAddr;

use dikast_server::{Config, Key, ServeError, Server};

use crate::support::{clef, config, get, noul, send, start};

/// auth-02
#[test]
fn with_keys_only_probes_are_open() {
    let server = start(Config { keys: vec!["one".into(), "two".into()], ..config() }, vec![clef()]);
    let address = server.address();
    for path in ["/livez", "/readyz", "/health", "/healthz", "/ping", "/metrics", "/gliclass/-/healthz", "/"]
    {
        assert_eq!(get(address, path).status, 200, "{path}");
    }
    for path in ["/v1/models", "/info", "/nowhere"] {
        assert_eq!(get(address, path).status, 401, "{path}");
    }
    let ask =
        |headers: &[(&str, &str)]| send(address, "POST", "/v1/systemone", headers, noul("x").as_bytes());
    for headers in [
        &[][..],
        &[("authorization", "Bearer three")],
        &[("authorization", "Bearer ")],
        &[("x-api-key", "on")],
        &[("authorization", "Bearer one two")],
    ] {
        let reply = ask(headers);
        assert_eq!(reply.status, 401, "{headers:?}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        assert_eq!(reply.at("error.type").as_str(), Some("authentication_error"));
        assert_eq!(reply.at("detail.error_type").as_str(), Some("authentication_error"));
    }
    for headers in [
        &[("authorization", "Bearer one")][..],
        &[("authorization", "bearer two")],
        &[("x-api-key", "two")],
        &[("api-subscription-key", "one")],
    ] {
        assert_eq!(ask(headers).status, 200, "{headers:?}");
    }
    let path = "/client/v4/accounts/a/ai/run/@cf/cloudflare/clef";
    let envelope = send(address, "POST", path, &[], noul("x").as_bytes());
    assert_eq!((envelope.status, envelope.at("errors.0.code").to_string()), (401, "10000".to_owned()));
    server.stop();
    assert!(server.join().is_ok());
}

#[test]
fn other_machines_need_a_key() {
    let listen = SocketAddr::from(([0, 0, 0, 0], 0));
    let outcome = Server::start(Config { listen, ..config() }, vec![clef()]);
    assert!(matches!(outcome, Err(ServeError::NoKey(_))), "{outcome:?}");
    for config in
        [Config { listen, insecure: true, ..config() }, Config { listen, keys: vec!["k".into()], ..config() }]
    {
        let server = Server::start(config, vec![clef()]).expect("it starts");
        server.stop();
        assert!(server.join().is_ok());
    }
    let blank = Server::start(Config { keys: vec![" ".into()], ..config() }, vec![clef()]);
    assert!(matches!(blank, Err(ServeError::Setting(_))));
    assert!(matches!(Server::start(config(), vec![clef(), clef()]), Err(ServeError::Setting(_))));
}

#[test]
fn every_key_has_its_rate() {
    let keys = vec![Key { secret: "one".into(), rate: "2/h".parse().ok() }, "two".into(), "three".into()];
    let server = start(Config { keys, rate: "1/h".parse().ok(), ..config() }, vec![clef()]);
    let address = server.address();
    let ask = |path: &str, key: &str| {
        let bearer = format!("Bearer {key}");
        send(address, "POST", path, &[("authorization", &bearer)], noul("x").as_bytes())
    };
    assert_eq!([ask("/v1/systemone", "one").status, ask("/v1/systemone", "one").status], [200, 200]);
    assert_eq!(ask("/v1/systemone", "two").status, 200);
    let limited = ask("/v1/systemone", "one");
    assert_eq!((limited.status, limited.at("error.type").as_str()), (429, Some("rate_limit_error")));
    assert_eq!(limited.at("detail.error_type").as_str(), Some("rate_limit_error"));
    let seconds: u64 = limited.header("retry-after").and_then(|v| v.parse().ok()).expect("whole seconds");
    assert!((1000..=1800).contains(&seconds), "{seconds}");
    let envelope = ask("/client/v4/accounts/a/ai/run/@cf/cloudflare/clef", "two");
    assert_eq!((envelope.status, envelope.at("errors.0.code").to_string()), (429, "3040".to_owned()));
    let labels = ask("/gliclass", "two");
    assert_eq!((labels.status, labels.at("error_type").as_str()), (429, Some("Overloaded")));
    // Others have theirs, an unknown key has none, and probes need no key.
    assert_eq!(ask("/v1/systemone", "three").status, 200);
    assert_eq!(ask("/v1/systemone", "four").status, 401);
    assert_eq!(get(address, "/readyz").status, 200);
    assert_eq!(crate::support::metric(address, "decisions_rate_limited_total"), 3.0);
    server.stop();
    assert!(server.join().is_ok());
    let keyless = Server::start(Config { rate: "1/h".parse().ok(), ..config() }, vec![clef()]);
    assert!(matches!(keyless, Err(ServeError::Setting(_))), "{keyless:?}");
}
