//! What the backend can run.

use dikast_core::graph::{Activation, Graph, Step};
use dikast_core::{Error, Result};

/// Refuses a graph with a step that has no kernel, before anything is loaded.
pub(crate) fn check(graph: &Graph) -> Result<()> {
    graph.steps().iter().find(|step| !runs(step)).map_or(Ok(()), |step| Err(lacking(step)))
}

/// The error for a step without a kernel.
pub(crate) fn lacking(step: &Step) -> Error {
    Error::Unsupported { device: "wgpu".to_owned(), need: format!("a kernel for the step {}", step.name()) }
}

fn runs(step: &Step) -> bool {
    match step {
        Step::Linear { activation, .. } => *activation != Some(Activation::Silu),
        Step::LinearGated { activation, .. } | Step::QuantLinearGated { activation, .. } => {
            *activation != Activation::Silu
        }
        Step::Embed { .. }
        | Step::RmsNorm { .. }
        | Step::RmsNormQuantize { .. }
        | Step::Quantize { .. }
        | Step::LayerNorm { .. }
        | Step::QuantLinear { .. }
        | Step::Attention { .. }
        | Step::SelectRows { .. }
        | Step::PoolSpans { .. }
        | Step::PoolText { .. }
        | Step::BiLstm { .. }
        | Step::L2Normalize { .. }
        | Step::Concat { .. }
        | Step::PairProduct { .. }
        | Step::HopfieldMix { .. }
        | Step::Dot { .. }
        | Step::Scale { .. } => true,
        _ => false,
    }
}
