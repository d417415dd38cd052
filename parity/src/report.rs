//! What a comparison found.

use serde::Serialize;

use crate::contract::{Rule, Tolerance};
use crate::record::Device;

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The model.
    pub model: String,
    /// The backend whose logits are the measure.
    pub reference: Device,
    /// The backend that was judged.
    pub device: Device,
    /// Sequences compared.
    pub sequences: usize,
    /// What was allowed.
    pub tolerance: Tolerance,
    /// Everything is within its contract.
    pub pass: bool,
    /// Index in [`Report::steps`] of the first entry that is not.
    pub first_out_of_contract: Option<usize>,
    /// Every output of every step, in execution order.
    pub steps: Vec<StepReport>,
    /// The logits.
    pub logits: Logits,
    /// Whether the backend gave each sequence the same bits alone and in a batch.
    pub batch_invariant: bool,
}

/// One output of one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepReport {
    /// Index of the step in the graph.
    pub index: usize,
    /// Name of the step.
    pub step: String,
    /// Name of the tensor.
    pub tensor: String,
    /// What was compared.
    pub rule: Rule,
    /// The worst of all sequences, by the rule.
    pub worst: f64,
    /// Largest difference of an element.
    pub largest: f64,
    /// Elements compared.
    pub elements: u64,
    /// What `worst` may be.
    pub allowed: f64,
    /// Whether it is.
    pub ok: bool,
}

/// The logits of all sequences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Logits {
    /// Worst relative Euclidean distance of a sequence's logits.
    pub relative: f64,
    /// Largest difference.
    pub largest: f64,
    /// Logits compared.
    pub count: u64,
    /// Whether the distance is within the tolerance.
    pub ok: bool,
}

impl Report {
    /// What was judged: the model, its backend, and the other backend where that is not the CPU.
    pub fn title(&self) -> String {
        let Self { model, device, reference, .. } = self;
        match reference.backend.as_str() {
            "cpu" => format!("{model} on {}", device.backend),
            other => format!("{model} on {} against {other}", device.backend),
        }
    }

    /// The first entry out of contract.
    pub fn first_off(&self) -> Option<&StepReport> {
        self.first_out_of_contract.and_then(|i| self.steps.get(i))
    }

    /// Entries out of contract.
    pub fn off(&self) -> impl Iterator<Item = &StepReport> {
        self.steps.iter().filter(|s| !s.ok)
    }

    /// As JSON, indented.
    ///
    /// # Errors
    /// [`dikast_core::Error::Internal`] when it cannot be written.
    pub fn to_json(&self) -> dikast_core::Result<String> {
        serde_json::to_string_pretty(self).map_err(|e| dikast_core::Error::Internal(e.to_string()))
    }
}
