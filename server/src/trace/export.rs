//! Spans of this process on their way to a collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;

use super::OtlpEndpoint;
use super::client::Client;
use crate::config::LogFormat;
use crate::error::ServeError;
use crate::log::Log;

/// Sends the spans of all servers of this process to a collector, from a thread of its own: requests do not wait for it, and
/// spans for which its queue has no room are dropped. Where they go is told by [`OtlpEndpoint`]; batches, sampling, headers and the
/// name of the service are as the variables `OTEL_…` say.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    failing: Arc<AtomicBool>,
}

impl Traces {
    /// Starts sending. That a collector does not answer is logged, once each time that it goes away.
    ///
    /// # Errors
    /// Settings that do not hold, and a process whose spans go somewhere already.
    pub fn start(endpoint: &OtlpEndpoint, log: LogFormat) -> Result<Self, ServeError> {
        let setting = |error: String| ServeError::Setting(format!("traces: {error}"));
        let (client, failing) = Client::new(endpoint, Log::new(log)).map_err(setting)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(&endpoint.url)
            .with_timeout(endpoint.timeout)
            .build()
            .map_err(|error| setting(error.to_string()))?;
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("dikast"))
            .with_context_activation(false)
            .with_tracked_inactivity(false)
            .with_location(false)
            .with_threads(false)
            .with_target(false);
        // The server's own, not those of the libraries below it.
        let own = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("dikast_server"))
            .with_max_level_hint(LevelFilter::INFO);
        let subscriber = tracing_subscriber::registry().with(layer).with(own);
        tracing::subscriber::set_global_default(subscriber)
            .map_err(|_| setting("spans of this process go elsewhere already".to_owned()))?;
        Ok(Self { provider, failing })
    }

    /// Sends what is left, for at most this long; not at all to a collector that did not answer last.
    pub fn end(self, patience: Duration) {
        let patience = if self.failing.load(Ordering::Relaxed) { Duration::ZERO } else { patience };
        // Nobody is left to tell.
        let _ = self.provider.shutdown_with_timeout(patience);
    }
}

/// What every span says of this process.
fn resource() -> Resource {
    let found = Resource::builder().build();
    let missing = |name: &'static str| {
        let value = found.get(&Key::from_static_str(name));
        value.is_none_or(|value| value.as_str().starts_with("unknown_service"))
    };
    let own = [("service.name", "dikast"), ("service.version", env!("CARGO_PKG_VERSION"))];
    let own =
        own.into_iter().filter(|(name, _)| missing(name)).map(|(name, value)| KeyValue::new(name, value));
    Resource::builder().with_attributes(own).build()
}
