//! Settings of a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use dikast_core::request::Confidence;

use crate::keys::Key;
use crate::rate::Rate;
use crate::tls::Tls;

/// Settings of a server, checked when it starts.
#[derive(Clone)]
pub struct Config {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Keys of callers; none means that everybody may call.
    pub keys: Vec<Key>,
    /// How many requests each key may send, unless it has a rate of its own; as many as it likes if absent.
    pub rate: Option<Rate>,
    /// Speak TLS only.
    pub tls: Option<Tls>,
    /// Origins whose pages browsers may let call, such as `https://example.com`; `*` is all of them.
    pub cors_origins: Vec<String>,
    /// Listen on an address that others reach even without a key.
    pub insecure: bool,
    /// How long the device waits for company for a request, at most.
    pub max_wait: Duration,
    /// Most tokens of one batch.
    pub batch_tokens: usize,
    /// Most tokens waiting and running, for each model.
    pub queue_tokens: usize,
    /// Most requests waiting and running, for each model.
    pub queue_requests: usize,
    /// Most tokens of a request; the model's own default if absent.
    pub max_tokens: Option<usize>,
    /// Whether CLEF models read pictures and videos; without, their vision towers take no memory.
    pub vision: bool,
    /// Bytes of device memory for states of CLEF requests that are asked about again; 0 keeps none. Answers are the same.
    pub state_cache: u64,
    /// How long a request may wait for its first turn.
    pub queue_timeout: Duration,
    /// How long requests may take to finish once the server is told to end.
    pub grace: Duration,
    /// Most bytes of a body as it comes.
    pub body_bytes: usize,
    /// Most bytes of a body after decompression.
    pub plain_bytes: usize,
    /// Most bytes of all bodies that are being read or prepared.
    pub all_body_bytes: usize,
    /// How long a head, and how long a body, may take to arrive.
    pub read_timeout: Duration,
    /// Most open connections; further ones wait.
    pub connections: usize,
    /// Digits after the point of the numbers in answers.
    pub decimals: u8,
    /// What `confidence` means.
    pub confidence: Confidence,
    /// Every model name means the default model.
    pub any_model: bool,
    /// Labels of the routes that have none in their requests.
    pub default_labels: Vec<String>,
    /// One line a request.
    pub log: LogFormat,
    /// End at SIGTERM and SIGINT.
    pub signals: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            keys: Vec::new(),
            rate: None,
            tls: None,
            cors_origins: Vec::new(),
            insecure: false,
            max_wait: Duration::ZERO,
            batch_tokens: 4096,
            queue_tokens: 1 << 16,
            queue_requests: 1024,
            max_tokens: None,
            vision: true,
            state_cache: 0,
            queue_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(30),
            body_bytes: 13 << 20,
            plain_bytes: 32 << 20,
            all_body_bytes: 256 << 20,
            read_timeout: Duration::from_secs(30),
            connections: 2048,
            decimals: 6,
            confidence: Confidence::default(),
            any_model: false,
            default_labels: Vec::new(),
            log: LogFormat::Off,
            signals: false,
        }
    }
}

/// Without the keys.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("keys", &self.keys.len())
            .field("max_wait", &self.max_wait)
            .field("batch_tokens", &self.batch_tokens)
            .field("queue_tokens", &self.queue_tokens)
            .finish_non_exhaustive()
    }
}

/// How requests are logged, to standard error. No line holds what a caller sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Not at all.
    #[default]
    Off,
    /// For people.
    Text,
    /// One JSON map a line.
    Json,
}
