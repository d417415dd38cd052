//! Who may call.

use std::net::SocketAddr;

use dikast_server::{Config, ServeError, Server};

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
