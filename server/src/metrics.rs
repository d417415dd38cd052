//! Counters for Prometheus, one registry a server.

use std::time::Duration;

use dikast_core::backend::MemoryBudget;
use prometheus::{
    Encoder as _, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder,
};

use crate::queue::{Done, Ran};

/// All counters of a server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    duration: HistogramVec,
    queued: HistogramVec,
    tokenized: HistogramVec,
    inferred: HistogramVec,
    batch_size: HistogramVec,
    batch_tokens: HistogramVec,
    depth: IntGaugeVec,
    ready: IntGaugeVec,
    input_tokens: IntCounterVec,
    questions: IntCounterVec,
    truncated: IntCounter,
    lost: IntCounterVec,
    memory: IntGaugeVec,
    limited: IntCounter,
    states: StateMetrics<IntCounterVec, IntGaugeVec>,
}

/// What the state cache did and holds.
struct StateMetrics<Counter, Gauge> {
    hits: Counter,
    kept: Counter,
    evicted: Counter,
    entries: Gauge,
    bytes: Gauge,
}

/// Seconds: from well under the smallest model's time to the time-outs of clients.
const SECONDS: [f64; 14] =
    [0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0];
const REQUESTS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
const TOKENS: [f64; 10] = [32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

impl Metrics {
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let all = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(all.clone())).map(|()| all)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let all = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(all.clone())).map(|()| all)
        };
        let histograms = |name: &str, help: &str, label: &str, buckets: &[f64]| {
            let all = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), &[label])?;
            registry.register(Box::new(all.clone())).map(|()| all)
        };
        let truncated =
            IntCounter::new("decisions_truncated_total", "Requests whose text or state was cut.")?;
        registry.register(Box::new(truncated.clone()))?;
        let limited =
            IntCounter::new("decisions_rate_limited_total", "Requests over the rate of their key.")?;
        registry.register(Box::new(limited.clone()))?;
        let build = gauges("build_info", "The program that serves.", &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let seconds = |name: &str, help: &str, label: &str| histograms(name, help, label, &SECONDS);
        Ok(Self {
            requests: counters(
                "decisions_requests_total",
                "Requests by route, model and status; status cancelled: the client went away.",
                &["route", "model", "status"],
            )?,
            duration: seconds("decisions_request_duration_seconds", "From the head to the answer.", "route")?,
            queued: seconds("decisions_queue_duration_seconds", "Waiting for the first turn.", "model")?,
            tokenized: seconds(
                "decisions_tokenize_duration_seconds",
                "Checks, pictures and tokens.",
                "model",
            )?,
            inferred: seconds("decisions_inference_duration_seconds", "One batch on the device.", "model")?,
            batch_size: histograms("decisions_batch_size", "Requests of a batch.", "model", &REQUESTS)?,
            batch_tokens: histograms("decisions_batch_tokens", "Tokens of a batch.", "model", &TOKENS)?,
            depth: gauges("decisions_queue_depth", "Requests waiting or running.", &["model"])?,
            ready: gauges("decisions_model_ready", "1 if the model answers.", &["model"])?,
            input_tokens: counters("decisions_input_tokens_total", "Tokens read.", &["model"])?,
            questions: counters("decisions_questions_total", "Questions answered, by type.", &["type"])?,
            truncated,
            lost: counters("decisions_device_lost_total", "Times that a device went away.", &["model"])?,
            memory: gauges(
                "decisions_gpu_memory_bytes",
                "Device memory planned for a model; kind activations is for a full batch.",
                &["model", "device", "kind"],
            )?,
            limited,
            states: StateMetrics {
                hits: counters(
                    "decisions_state_cache_hits_total",
                    "Sequences whose state was on the device.",
                    &["model", "device"],
                )?,
                kept: counters(
                    "decisions_state_cache_kept_total",
                    "States computed and kept on the device.",
                    &["model", "device"],
                )?,
                evicted: counters(
                    "decisions_state_cache_evicted_total",
                    "States that made room for others.",
                    &["model", "device"],
                )?,
                entries: gauges(
                    "decisions_state_cache_entries",
                    "States on the device.",
                    &["model", "device"],
                )?,
                bytes: gauges(
                    "decisions_state_cache_bytes",
                    "Bytes of device memory of the states on it.",
                    &["model", "device"],
                )?,
            },
            registry,
        })
    }

    /// The counters of a model's worker on one of its devices.
    pub(crate) fn of(&self, model: &str, device: usize) -> ModelMetrics {
        let device = device.to_string();
        let of = [model, device.as_str()];
        ModelMetrics {
            inferred: self.inferred.with_label_values(&[model]),
            batch_size: self.batch_size.with_label_values(&[model]),
            batch_tokens: self.batch_tokens.with_label_values(&[model]),
            lost: self.lost.with_label_values(&[model]),
            states: StateMetrics {
                hits: self.states.hits.with_label_values(&of),
                kept: self.states.kept.with_label_values(&of),
                evicted: self.states.evicted.with_label_values(&of),
                entries: self.states.entries.with_label_values(&of),
                bytes: self.states.bytes.with_label_values(&of),
            },
        }
    }

    /// A request ended.
    pub(crate) fn answered(&self, route: &str, model: &str, status: &str, took: Duration) {
        self.requests.with_label_values(&[route, model, status]).inc();
        self.duration.with_label_values(&[route]).observe(took.as_secs_f64());
    }

    /// A request was prepared.
    pub(crate) fn prepared(&self, model: &str, took: Duration) {
        self.tokenized.with_label_values(&[model]).observe(took.as_secs_f64());
    }

    /// A request came out of the queue.
    pub(crate) fn done(&self, model: &str, done: &Done) {
        self.queued.with_label_values(&[model]).observe(done.waited.as_secs_f64());
    }

    /// What a request read.
    pub(crate) fn read(&self, model: &str, tokens: u64, cut: bool) {
        self.input_tokens.with_label_values(&[model]).inc_by(tokens);
        if cut {
            self.truncated.inc();
        }
    }

    /// Questions of a type were answered.
    pub(crate) fn questions(&self, kind: &str, count: u64) {
        self.questions.with_label_values(&[kind]).inc_by(count);
    }

    /// A request came too soon after others of its key.
    pub(crate) fn limited(&self) {
        self.limited.inc();
    }

    /// What a model takes of a device. The host's own memory is not counted.
    pub(crate) fn memory(&self, model: &str, device: usize, backend: &str, budget: &MemoryBudget) {
        if backend == "cpu" {
            return;
        }
        let device = device.to_string();
        for (kind, bytes) in [("weights", budget.device_weights), ("activations", budget.activations)] {
            let gauge = self.memory.with_label_values(&[model, device.as_str(), kind]);
            gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    /// All counters as text, with the gauges as they are now: depth and readiness of each model.
    pub(crate) fn text<'m>(&self, models: impl Iterator<Item = (&'m str, usize, bool)>) -> String {
        for (model, depth, ready) in models {
            self.depth.with_label_values(&[model]).set(depth as i64);
            self.ready.with_label_values(&[model]).set(i64::from(ready));
        }
        let mut text = Vec::new();
        // Writing to memory does not fail, and every family has a help text.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Counters of a model's worker.
pub(crate) struct ModelMetrics {
    inferred: Histogram,
    batch_size: Histogram,
    batch_tokens: Histogram,
    lost: IntCounter,
    states: StateMetrics<IntCounter, IntGauge>,
}

impl ModelMetrics {
    pub(crate) fn ran(&self, batch: Ran) {
        self.inferred.observe(batch.took.as_secs_f64());
        self.batch_size.observe(batch.requests as f64);
        self.batch_tokens.observe(batch.tokens as f64);
        let now = batch.states;
        for (counter, total) in [
            (&self.states.hits, now.hits),
            (&self.states.kept, now.kept),
            (&self.states.evicted, now.evicted),
        ] {
            counter.inc_by(total.saturating_sub(counter.get()));
        }
        self.states.entries.set(now.entries as i64);
        self.states.bytes.set(i64::try_from(now.bytes).unwrap_or(i64::MAX));
    }

    pub(crate) fn lost(&self) {
        self.lost.inc();
    }
}
