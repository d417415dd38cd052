//! The result file. Its fields are documented in `benchmarks/README.md`; fields are added, never renamed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the file's schema.
pub(super) const SCHEMA: u32 = 1;

/// One run of `dikast bench`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) schema: u32,
    pub(super) dikast: Build,
    /// UTC, RFC 3339.
    pub(super) date: String,
    pub(super) machine: Machine,
    pub(super) backend: BackendFacts,
    pub(super) model: ModelFacts,
    /// From opened files to a model that is ready, its checks included.
    pub(super) load_ms: f64,
    /// Of this process, before the ceilings were measured.
    pub(super) peak_rss_bytes: Option<u64>,
    pub(super) ceilings: Option<CeilingFacts>,
    pub(super) settings: Settings,
    pub(super) results: Vec<Cell>,
    /// With `--requests`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) requests: Vec<FileCell>,
}

/// What was measured with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Build {
    pub(super) version: String,
    pub(super) commit: Option<String>,
    pub(super) optimized: bool,
}

/// What was measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) cpu: Option<String>,
    pub(super) threads: usize,
    pub(super) system: String,
    pub(super) memory_bytes: Option<u64>,
}

/// The backend's own words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct BackendFacts {
    pub(super) name: String,
    pub(super) device: String,
    pub(super) memory_bytes: Option<u64>,
    pub(super) details: BTreeMap<String, String>,
}

/// The model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ModelFacts {
    pub(super) name: String,
    pub(super) format: String,
    pub(super) bytes: u64,
    /// Random weights: the times are real, the answers are not.
    pub(super) synthetic: bool,
}

/// What the machine does at most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct CeilingFacts {
    /// Bytes read plus written.
    pub(super) copy_gb_per_second: f64,
    pub(super) product_gflop_per_second: f64,
    pub(super) quantized_product_gflop_per_second: f64,
}

/// The flags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) labels: usize,
    pub(super) warmup: usize,
    pub(super) runs: usize,
    pub(super) seconds: u32,
    pub(super) seed: u64,
}

/// One size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Cell {
    /// Tokens of each sequence.
    pub(super) tokens: usize,
    /// Sequences of a forward pass.
    pub(super) batch: usize,
    /// The forward pass over a packed batch.
    pub(super) forward: Times,
    pub(super) tokens_per_second: f64,
    pub(super) requests_per_second: f64,
    /// Products of one forward pass.
    pub(super) gflop: f64,
    pub(super) gflop_per_second: f64,
    /// The whole request; batch 1 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<RequestTimes>,
    /// By kind of step; with `--profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) steps: Option<Vec<StepGroup>>,
}

/// The times of the runs of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) runs: usize,
    pub(super) median_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) min_ms: f64,
}

/// The whole request, from the text to the answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct RequestTimes {
    /// Tokens that the text and its labels have.
    pub(super) tokens: u64,
    #[serde(flatten)]
    pub(super) times: Times,
    /// Validation, rendering and tokenization alone.
    pub(super) prepare: Times,
}

/// The requests of a file, some at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FileCell {
    /// Requests in the file.
    pub(super) requests: usize,
    /// Requests of one call; the last call of a pass may have fewer.
    pub(super) batch: usize,
    /// Tokens of all requests.
    pub(super) tokens: u64,
    /// One call, from the texts to the answers; over the calls of all passes.
    pub(super) call: Times,
    /// Over all passes.
    pub(super) requests_per_second: f64,
}

/// All steps of one kind of one forward pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StepGroup {
    pub(super) kind: String,
    pub(super) calls: usize,
    pub(super) microseconds: f64,
    /// Of the sum of all steps.
    pub(super) share: f64,
    pub(super) gflop_per_second: f64,
    pub(super) gb_per_second: f64,
    /// The least time by bytes or products at the measured ceilings, step by step.
    pub(super) bound_microseconds: Option<f64>,
    /// The bound divided by the time.
    pub(super) reached: Option<f64>,
}
