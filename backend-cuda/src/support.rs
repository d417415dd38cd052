//! What the backend can run.

use dikast_core::graph::{Activation, Graph, Step};
use dikast_core::{Error, Result};

/// Refuses a graph with a step that has no kernel, before anything is loaded.
pub(crate) fn check(graph: &Graph) -> Result<()> {
    graph.steps().iter().find(|step| !runs(step)).map_or(Ok(()), |step| Err(lacking(step)))
}

/// The error for a step without a kernel.
pub(crate) fn lacking(step: &Step) -> Error {
    Error::Unsupported { device: "cuda".to_owned(), need: format!("a kernel for the step {}", step.name()) }
}

fn runs(step: &Step) -> bool {
    match step {
        // Hopper's FP8 kernel and its fallback have no such gate; no model has one.
        Step::QuantLinearGated { activation, .. } => *activation != Activation::Silu,
        _ => true,
    }
}
