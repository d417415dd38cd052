//! Servers under test, and a small HTTP client that does what it is told.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use dikast_core::checkpoint::ModelFiles;
use dikast_core::cpu::CpuBackend;
use dikast_core::request::Json;
use dikast_server::{Config, ModelSource, Server};

/// A folder of the test data that all crates share.
pub(crate) fn data(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(path)
}

/// The files of the small CLEF model.
pub(crate) fn clef_files() -> ModelFiles {
    ModelFiles::open(data("clef-tiny/model")).expect("the fixture is there")
}

/// The small CLEF model on the CPU.
pub(crate) fn clef() -> ModelSource {
    ModelSource::new("clef-tiny", clef_files(), || Ok(CpuBackend::new()))
}

/// The embedded label model on the CPU.
pub(crate) fn labels() -> ModelSource {
    ModelSource::new("gliclass-mini", dikast_models::gliclass_mini(), || Ok(CpuBackend::new()))
}

/// Settings for tests: a free port, a small limit of tokens.
pub(crate) fn config() -> Config {
    Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        max_tokens: Some(8192),
        // A busy machine is no reason to fail.
        queue_timeout: Duration::from_secs(600),
        default_labels: vec!["weather".into(), "money".into()],
        ..Config::default()
    }
}

/// A ready server.
pub(crate) fn start(config: Config, models: Vec<ModelSource>) -> Server {
    let server = Server::start(config, models).expect("it starts");
    assert!(server.wait_ready(), "it ended before it was ready");
    server
}

/// One server with both families, for all tests that only ask.
pub(crate) fn shared() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    let both = || {
        // It runs on until the test program ends.
        start(config(), vec![clef(), labels()]).address()
    };
    *ADDRESS.get_or_init(both)
}

/// A server of the label model alone, with [`LABEL_TOKENS`].
pub(crate) fn short() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    let config = || Config { max_tokens: Some(LABEL_TOKENS), ..config() };
    *ADDRESS.get_or_init(|| start(config(), vec![labels()]).address())
}

/// The limit of [`short`].
pub(crate) const LABEL_TOKENS: usize = 256;

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Json {
        Json::parse(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The value at a path of keys and indices.
    pub(crate) fn at(&self, path: &str) -> Json {
        at(&self.json(), path)
    }
}

/// The value at a path such as `answers.a.noul` or `errors.0.code`; null where there is none.
pub(crate) fn at(json: &Json, path: &str) -> Json {
    let step = |value: Json, key: &str| match &value {
        Json::Array(items) => {
            key.parse().ok().and_then(|i: usize| items.get(i).cloned()).unwrap_or(Json::Null)
        }
        other => other.get(key).cloned().unwrap_or(Json::Null),
    };
    path.split('.').fold(json.clone(), step)
}

/// Items of a list.
pub(crate) fn list(json: &Json) -> &[Json] {
    match json {
        Json::Array(items) => items,
        other => panic!("no list: {other}"),
    }
}

/// Entries of a map.
pub(crate) fn map(json: &Json) -> &[(String, Json)] {
    match json {
        Json::Object(entries) => entries,
        other => panic!("no map: {other}"),
    }
}

/// A request as bytes, with the length of its body and `Connection: close`.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
    if !body.is_empty() {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    if !headers.iter().any(|(name, _)| *name == "content-type") && !body.is_empty() {
        text.push_str("content-type: application/json\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// A connection on which a request was sent.
pub(crate) fn open(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    // Nothing in these tests takes a minute on an idle machine; a server that hangs fails the test.
    stream.set_read_timeout(Some(Duration::from_secs(300))).expect("set");
    // A server that refuses early may close before everything is sent.
    let _ = stream.write_all(bytes);
    stream
}

/// The response on a connection.
pub(crate) fn receive(mut stream: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes);
    // A reset after an early refusal loses nothing of the refusal that was read.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {end:?} {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Reply { status, headers, body: body.to_owned() }
}

/// Sends a request and reads the response.
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    receive(open(address, &request(method, path, headers, body)))
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> Reply {
    send(address, "POST", path, &[], body.as_bytes())
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Reply {
    send(address, "GET", path, &[], b"")
}

/// A System One body about a state.
pub(crate) fn noul(state: &str) -> String {
    let state = Json::from(state);
    format!(
        r#"{{"model":"clef","state":{state},"questions":{{"a":{{"type":"noul","instructions":"Is it?"}}}}}}"#
    )
}

/// The value of a counter or gauge, with its labels as they are printed; 0 where it is not printed.
pub(crate) fn metric(address: SocketAddr, name: &str) -> f64 {
    let text = get(address, "/metrics").body;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().expect("a number"))
}

/// Waits until something holds. What takes minutes does not come.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(300), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
