//! Arguments of `serve`.

use std::path::PathBuf;
use std::time::Duration;

use crate::classifier::BackendChoice;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  dikast serve
  dikast serve --listen 127.0.0.1:0 --model clef=./clef --default-labels news,sport
  DIKAST_API_KEY=secret dikast serve --listen 0.0.0.0:8080 --log json
  dikast serve --max-wait 2ms --print-config > serve.toml; dikast serve --config serve.toml

Then:
  curl localhost:8080/gliclass -H 'content-type: application/json' \\
    -d '{\"text\": \"The lift is stuck\", \"labels\": [\"repair\", \"sales\"], \"threshold\": 0}'")]
pub(crate) struct ServeArgs {
    /// File of settings in TOML, each named as its flag; flags and variables go before it.
    #[arg(long, value_name = "FILE", env = "DIKAST_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Print the settings in force as such a file, without keys, and end.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// What `--print-config` prints.
    #[arg(skip)]
    pub(crate) settings: String,

    /// A model to serve as NAME=DIR, or DIR under its folder's name; may be repeated. Without it, the built-in ones.
    #[arg(long = "model", value_name = "NAME=DIR", help_heading = "Models")]
    pub(crate) models: Vec<String>,
    /// What runs the models.
    #[arg(long, value_enum, default_value_t, env = "DIKAST_BACKEND", help_heading = "Models")]
    pub(crate) backend: BackendChoice,
    /// Devices that each model uses, with a worker and a copy of the weights on each: CUDA devices 0 to N-1, or as many
    /// workers on another backend.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64), env = "DIKAST_DEVICES", help_heading = "Models")]
    pub(crate) devices: u16,
    /// Most tokens of a request [default: each model's own].
    #[arg(long, value_name = "N", value_parser = super::values::tokens, env = "DIKAST_MAX_TOKENS", help_heading = "Models")]
    pub(crate) max_tokens: Option<std::num::NonZeroUsize>,
    /// Vision towers of CLEF models.
    #[arg(long, value_enum, default_value_t, env = "DIKAST_VISION", help_heading = "Models")]
    pub(crate) vision: super::vision::Vision,
    /// Most memory that each model may take on a CUDA device, such as 24G [default: all of it].
    #[arg(long, value_name = "BYTES", value_parser = super::values::bytes, env = "DIKAST_MEMORY_BUDGET", help_heading = "Models")]
    pub(crate) memory_budget: Option<u64>,
    /// Device memory, such as 4G, in which each CLEF model keeps states that are asked about again: later questions on the same
    /// state then cost only their own tokens, and the answers are the same [default: none].
    ///
    /// The least recently used state makes room for a new one. With CUDA, for texts; elsewhere nothing is kept. A state that is
    /// asked about once costs a third more.
    #[arg(long, value_name = "BYTES", value_parser = super::values::bytes, env = "DIKAST_STATE_CACHE", help_heading = "Models")]
    pub(crate) state_cache: Option<u64>,
    /// Every model name of a request means the default model.
    #[arg(long, help_heading = "Models")]
    pub(crate) any_model: bool,
    /// Labels of the routes whose requests have none, with commas between them.
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        env = "DIKAST_DEFAULT_LABELS",
        help_heading = "Models"
    )]
    pub(crate) default_labels: Vec<String>,

    /// Address and port to listen on; port 0 picks a free one, which is printed.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:8080",
        env = "DIKAST_LISTEN",
        help_heading = "Network"
    )]
    pub(crate) listen: String,
    /// File with one key a line, and behind it the key's own rate if it has one; callers must send one of the keys.
    #[arg(long, value_name = "FILE", env = "DIKAST_API_KEY_FILE", help_heading = "Network")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// A key; callers must send it. Better given by the variable, which other users cannot see.
    #[arg(
        long,
        value_name = "KEY",
        env = "DIKAST_API_KEY",
        hide_env_values = true,
        help_heading = "Network"
    )]
    pub(crate) api_key: Option<String>,
    /// Requests that each key may send, such as 20/s or 5000/h: that many at once, then as many as the time brings; further
    /// ones get 429.
    #[arg(long, value_name = "N/TIME", env = "DIKAST_RATE_LIMIT", help_heading = "Network")]
    pub(crate) rate_limit: Option<dikast_server::Rate>,
    /// File with the certificate chain in PEM; TLS only from then on.
    #[arg(long, value_name = "FILE", env = "DIKAST_TLS_CERT", help_heading = "Network")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the certificate's private key in PEM.
    #[arg(long, value_name = "FILE", env = "DIKAST_TLS_KEY", help_heading = "Network")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Origin whose pages browsers may let call, as browsers send it (scheme, host and port), or * for all; may be repeated.
    #[arg(
        long = "cors-origin",
        value_name = "ORIGIN",
        value_delimiter = ',',
        env = "DIKAST_CORS_ORIGIN",
        help_heading = "Network"
    )]
    pub(crate) cors_origins: Vec<String>,
    /// Listen on an address that other machines reach, without a key.
    #[arg(long, help_heading = "Network")]
    pub(crate) insecure: bool,
    /// Most bytes of a body as it comes.
    #[arg(long, value_name = "BYTES", default_value_t = 13 << 20, env = "DIKAST_MAX_BODY", help_heading = "Network")]
    pub(crate) max_body: usize,
    /// Most open connections; further ones wait.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2048,
        env = "DIKAST_CONNECTIONS",
        help_heading = "Network"
    )]
    pub(crate) connections: usize,
    /// How long a head, and how long a body, may take to arrive.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s", env = "DIKAST_READ_TIMEOUT", help_heading = "Network")]
    pub(crate) read_timeout: Duration,

    /// How long the device waits for company for a request, for example 2ms.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0ms", env = "DIKAST_MAX_WAIT", help_heading = "Scheduling")]
    pub(crate) max_wait: Duration,
    /// Most tokens of one batch.
    #[arg(long, value_name = "N", value_parser = super::values::tokens, default_value = "4096", env = "DIKAST_BATCH_TOKENS", help_heading = "Scheduling")]
    pub(crate) batch_tokens: std::num::NonZeroUsize,
    /// Most tokens waiting and running, for each model; further requests get 503.
    #[arg(long, value_name = "N", default_value_t = 1 << 16, env = "DIKAST_QUEUE_TOKENS", help_heading = "Scheduling")]
    pub(crate) queue_tokens: usize,
    /// Most requests waiting and running, for each model; further ones get 503.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1024,
        env = "DIKAST_QUEUE_REQUESTS",
        help_heading = "Scheduling"
    )]
    pub(crate) queue_requests: usize,
    /// Most bytes of the bodies of all requests inside, such as 256M; further requests get 503.
    #[arg(long, value_name = "BYTES", value_parser = super::values::bytes, default_value = "256M", env = "DIKAST_QUEUE_BYTES", help_heading = "Scheduling")]
    pub(crate) queue_bytes: u64,
    /// How long a request may wait for its turn.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s", env = "DIKAST_QUEUE_TIMEOUT", help_heading = "Scheduling")]
    pub(crate) queue_timeout: Duration,
    /// How long running requests may take once the server is told to end.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s", env = "DIKAST_GRACE", help_heading = "Scheduling")]
    pub(crate) grace: Duration,

    /// What `confidence` means.
    #[arg(long, value_parser = dikast_core::request::Confidence::NAMES, default_value = "typesafe", env = "DIKAST_CONFIDENCE", help_heading = "Answers")]
    pub(crate) confidence: String,
    /// Digits after the point; 4 is what CLEF's reference writes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15), default_value_t = 6, env = "DIKAST_DECIMALS", help_heading = "Answers")]
    pub(crate) decimals: u8,
    /// One line a request on standard error, without anything that callers sent.
    #[arg(long, value_enum, default_value_t, env = "DIKAST_LOG", help_heading = "Answers")]
    pub(crate) log: Log,
    /// Collector of OpenTelemetry that gets the spans of requests, as OTLP over HTTP; `/v1/traces` is put behind the address
    /// [default: what OTEL_EXPORTER_OTLP_ENDPOINT says; none].
    ///
    /// Spans hold ids of requests, models, counts and times, and nothing that callers sent. The other variables of the standard
    /// hold, such as OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and OTEL_TRACES_SAMPLER.
    #[arg(long, value_name = "URL", env = "DIKAST_OTLP_ENDPOINT", help_heading = "Answers")]
    pub(crate) otlp_endpoint: Option<dikast_server::OtlpEndpoint>,
}

/// `--log`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Log {
    /// No lines.
    Off,
    /// For people.
    #[default]
    Text,
    /// One JSON map a line.
    Json,
}

/// A time with its unit, up to a day.
fn duration(text: &str) -> Result<Duration, String> {
    const DAY: f64 = 86_400.0;
    let text = text.trim();
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => return Err("a unit is missing; 250ms or 30s is allowed".to_owned()),
    };
    match number.parse::<f64>().map(|n| n * unit) {
        Ok(seconds) if (0.0..=DAY).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("250ms or 30s is allowed, up to a day".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_their_unit() {
        for (text, milliseconds) in [("0ms", 0), ("250ms", 250), ("1.5s", 1500), ("86400s", 86_400_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "5", "-1s", "86401s", "NaNs", "infs", "s", "ms", "5m"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
