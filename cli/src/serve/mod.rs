//! `dikast serve`: arguments → models and settings of the server.

mod keys;
mod models;

use std::io::Write as _;
use std::net::ToSocketAddrs as _;
use std::path::Path;
use std::time::Duration;

use dikast_core::request::Confidence;
use dikast_server::{Config, LogFormat, OtlpEndpoint, ServeError, Server, Tls, Traces};

use crate::args::{Log, ServeArgs};
use crate::classifier::{limit_memory, load_media_late};
use crate::exit::{Failure, Result};

/// How long the last spans may take after the last answer.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// Serves until a signal.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    if args.print_config {
        return write!(std::io::stdout().lock(), "{}", args.settings).map_err(Failure::Stdout);
    }
    let config = config(args)?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    limit_memory(args.memory_budget);
    load_media_late(args.vision.is_lazy());
    let models = models::sources(&args.models, args.backend, usize::from(args.devices))?;
    let traces = traces(args.otlp_endpoint.as_ref(), config.log)?;
    let server = Server::start(config, models).map_err(failure)?;
    if server.wait_ready() {
        let mut out = std::io::stdout().lock();
        let line = writeln!(out, "ready on {scheme}://{}", server.address());
        line.and_then(|()| out.flush()).map_err(Failure::Stdout)?;
    }
    let outcome = server.join().map_err(failure);
    if let Some(traces) = traces {
        traces.end(LAST_SPANS);
    }
    outcome
}

/// Spans go to the collector of the flag, or of the standard's variables.
fn traces(asked: Option<&OtlpEndpoint>, log: LogFormat) -> Result<Option<Traces>> {
    let endpoint = match asked {
        Some(endpoint) => Some(endpoint.clone()),
        None => OtlpEndpoint::from_env().map_err(Failure::usage)?,
    };
    endpoint.map(|endpoint| Traces::start(&endpoint, log).map_err(failure)).transpose()
}

fn config(args: &ServeArgs) -> Result<Config> {
    let listen = args.listen.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(|| {
        Failure::usage(format!(
            "--listen {}: ADDRESS:PORT is allowed, for example 127.0.0.1:8080",
            args.listen
        ))
    })?;
    let confidence = Confidence::from_name(&args.confidence)
        .ok_or_else(|| Failure::usage(format!("--confidence {}: unknown", args.confidence)))?;
    let room = usize::try_from(args.queue_bytes).unwrap_or(usize::MAX);
    if room < args.max_body {
        return Err(Failure::usage(format!(
            "--queue-bytes {room}: --max-body or more is allowed, which is {}",
            args.max_body
        )));
    }
    Ok(Config {
        listen,
        keys: keys::read(args.api_key.as_deref(), args.api_key_file.as_deref())?,
        rate: args.rate_limit,
        tls: tls(args.tls_cert.as_deref(), args.tls_key.as_deref())?,
        cors_origins: args.cors_origins.iter().map(|origin| origin.trim().to_owned()).collect(),
        insecure: args.insecure,
        max_wait: args.max_wait,
        batch_tokens: args.batch_tokens.get(),
        queue_tokens: args.queue_tokens,
        queue_requests: args.queue_requests,
        max_tokens: args.max_tokens.map(std::num::NonZeroUsize::get),
        vision: args.vision.reads(),
        state_cache: args.state_cache.unwrap_or(0),
        queue_timeout: args.queue_timeout,
        grace: args.grace,
        body_bytes: args.max_body,
        all_body_bytes: room,
        connections: args.connections,
        read_timeout: args.read_timeout,
        decimals: args.decimals,
        confidence,
        any_model: args.any_model,
        default_labels: args.default_labels.iter().map(|l| l.trim().to_owned()).collect(),
        log: match args.log {
            Log::Off => LogFormat::Off,
            Log::Text => LogFormat::Text,
            Log::Json => LogFormat::Json,
        },
        signals: true,
        ..Config::default()
    })
}

/// The certificate and its key, from two files or none.
fn tls(certificates: Option<&Path>, key: Option<&Path>) -> Result<Option<Tls>> {
    let read = |path: &Path| std::fs::read(path).map_err(Failure::io(format!("reading {}", path.display())));
    match (certificates, key) {
        (None, None) => Ok(None),
        (Some(certificates), Some(key)) => {
            Ok(Some(Tls { certificates: read(certificates)?, key: read(key)? }))
        }
        _ => Err(Failure::usage("--tls-cert and --tls-key: one needs the other")),
    }
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::NoKey(_) | ServeError::Setting(_) => Failure::usage(error.to_string()),
        ServeError::Model { source, .. } => Failure::Model(source),
        ServeError::Listen { address, source } => Failure::io(format!("listening on {address}"))(source),
        ServeError::System(source) => Failure::io("starting the server")(source),
        ServeError::Cut { requests } => {
            let message = format!("{requests} still running at the end of --grace");
            Failure::io("ending the server")(std::io::Error::new(std::io::ErrorKind::TimedOut, message))
        }
    }
}
