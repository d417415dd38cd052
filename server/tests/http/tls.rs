//! TLS and pages of other origins.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use dikast_server::{Config, ServeError, Server, Tls};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::{clef, config, noul, request, send, start};

#[test]
fn a_server_with_a_certificate_speaks_tls_only() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let tls = Tls {
        certificates: made.cert.pem().into_bytes(),
        key: made.signing_key.serialize_pem().into_bytes(),
    };
    let server = start(Config { tls: Some(tls.clone()), ..config() }, vec![clef()]);
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::new(client), name).expect("a session");
    let stream = TcpStream::connect(server.address()).expect("it listens");
    let mut stream = StreamOwned::new(session, stream);
    stream.write_all(&request("POST", "/v1/systemone", &[], noul("x").as_bytes())).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer and a proper end");
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("\"noul\""), "{text}");
    // Whoever speaks plain HTTP gets no answer, and holds nobody up.
    let mut plain = TcpStream::connect(server.address()).expect("it listens");
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").expect("sent");
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!bytes.starts_with(b"HTTP"), "{bytes:?}");
    server.stop();
    assert!(server.join().is_ok());
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    for (certificates, key) in [
        (Vec::new(), tls.key.clone()),
        (tls.certificates.clone(), b"nothing".to_vec()),
        (tls.certificates.clone(), other.signing_key.serialize_pem().into_bytes()),
    ] {
        let outcome =
            Server::start(Config { tls: Some(Tls { certificates, key }), ..config() }, vec![clef()]);
        assert!(matches!(&outcome, Err(ServeError::Setting(m)) if m.contains("TLS")), "{outcome:?}");
    }
}

#[test]
fn only_pages_of_listed_origins_may_call() {
    let cors_origins = vec!["https://a.example".to_owned()];
    let keys = vec!["k".into()];
    let server = start(Config { cors_origins, keys, ..config() }, vec![clef()]);
    let ask = |origin: &str| {
        let wanted = "authorization, content-type, x-request-id, x-typesafe-sdk-version";
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", wanted),
        ];
        let permission = send(server.address(), "OPTIONS", "/v1/systemone", &headers, b"");
        let headers = [("origin", origin), ("authorization", "Bearer k")];
        let answer = send(server.address(), "POST", "/v1/systemone", &headers, noul("x").as_bytes());
        (permission, answer)
    };
    let (permission, answer) = ask("https://a.example");
    assert_eq!((permission.status, answer.status), (200, 200), "{permission:?}");
    for name in ["authorization", "content-type", "x-request-id", "x-typesafe-sdk-version"] {
        assert!(
            permission.header("access-control-allow-headers").is_some_and(|v| v.contains(name)),
            "{name}"
        );
    }
    for reply in [&permission, &answer] {
        assert_eq!(reply.header("access-control-allow-origin"), Some("https://a.example"));
    }
    assert!(answer.header("access-control-expose-headers").is_some_and(|v| v.contains("x-request-id")));
    let (permission, answer) = ask("https://b.example");
    for reply in [&permission, &answer] {
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    server.stop();
    assert!(server.join().is_ok());
    let wrong = Config { cors_origins: vec!["a.example".to_owned()], ..config() };
    assert!(matches!(Server::start(wrong, vec![clef()]), Err(ServeError::Setting(_))));
}
