//! The client that carries spans to a collector.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use super::OtlpEndpoint;
use crate::log::Log;

/// Longest answer of a collector that is read.
const ANSWER: u64 = 1 << 20;

/// A client that blocks its thread, which is the exporter's own, and logs when a collector goes away and comes back.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    url: String,
    log: Log,
    failing: Arc<AtomicBool>,
}

impl Client {
    /// A client, and whether the last export failed.
    ///
    /// # Errors
    /// Certificates that cannot be read.
    pub(super) fn new(endpoint: &OtlpEndpoint, log: Log) -> Result<(Self, Arc<AtomicBool>), String> {
        let mut tls = TlsConfig::builder();
        if let Some(path) = &endpoint.certificates {
            let reading =
                |error: String| format!("certificates of the collector, {}: {error}", path.display());
            let pem = fs::read(path).map_err(|error| reading(error.to_string()))?;
            let mut found = Vec::new();
            for item in parse_pem(&pem) {
                if let PemItem::Certificate(certificate) = item.map_err(|error| reading(error.to_string()))? {
                    found.push(certificate);
                }
            }
            if found.is_empty() {
                return Err(reading("no certificate in PEM found".to_owned()));
            }
            tls = tls.root_certs(RootCerts::Specific(Arc::new(found)));
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(endpoint.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("dikast/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build())
            .build()
            .new_agent();
        let failing = Arc::new(AtomicBool::new(false));
        Ok((Self { agent, url: endpoint.url.clone(), log, failing: failing.clone() }, failing))
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (parts, body) = request.into_parts();
        let (parts, mut body) = self.agent.run(Request::from_parts(parts, &body[..]))?.into_parts();
        let body = body.with_config().limit(ANSWER).read_to_vec()?;
        Ok(Response::from_parts(parts, body.into()))
    }

    /// Logs a change, and nothing as long as things stay as they are.
    fn notice(&self, trouble: Option<String>) {
        let failing = trouble.is_some();
        if self.failing.swap(failing, Ordering::Relaxed) == failing {
            return;
        }
        match trouble {
            Some(why) => self.log.event("traces", &format!("spans do not reach {}: {why}", self.url)),
            None => self.log.event("traces", &format!("spans reach {} again", self.url)),
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let outcome = self.send(request);
        self.notice(match &outcome {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("status {}", response.status().as_u16())),
            Err(error) => Some(error.to_string()),
        });
        Ok(outcome?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use tokio_rustls::rustls::{ServerConnection, StreamOwned};

    use super::*;
    use crate::config::LogFormat;
    use crate::tls::{Tls, acceptor};

    /// Collectors with certificates of their own are reached with them, and not without.
    #[test]
    fn certificates_are_checked_against_those_that_are_named() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let tls = Tls {
            certificates: made.cert.pem().into_bytes(),
            key: made.signing_key.serialize_pem().into_bytes(),
        };
        let tls = acceptor(&tls).expect("it fits");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let session = ServerConnection::new(tls.config().clone()).expect("a session");
                let mut stream = StreamOwned::new(session, stream.expect("a connection"));
                let mut request = [0; 1024];
                // Whoever does not know the certificate says no more.
                if stream.read(&mut request).is_ok_and(|length| length > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy");
                }
            }
        });
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(made.cert.pem().as_bytes()).expect("written");
        let send = |certificates: Option<&std::path::Path>| {
            let endpoint = OtlpEndpoint {
                url: format!("https://localhost:{port}/v1/traces"),
                timeout: Duration::from_secs(60),
                certificates: certificates.map(Into::into),
            };
            let (client, failing) = Client::new(&endpoint, Log::new(LogFormat::Off)).expect("certificates");
            let request = Request::post(&endpoint.url).body(Bytes::from_static(b"spans")).expect("a request");
            let outcome = pollster::block_on(client.send_bytes(request));
            assert!(failing.load(Ordering::Relaxed), "a refusal is a failure too");
            outcome.map(|response| (response.status().as_u16(), response.into_body()))
        };
        let reached = send(Some(file.path())).expect("it answers");
        assert_eq!(reached, (503, Bytes::from_static(b"busy")));
        let refused = send(None).expect_err("an unknown certificate").to_string();
        assert!(refused.contains("certificate") || refused.contains("UnknownIssuer"), "{refused}");
    }
}
