//! What a backend computes for some sequences.

use std::collections::BTreeMap;

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::engine::{Engine, Model};
use dikast_core::graph::{Graph, Step, TensorId};
use dikast_core::numerics::int8::{Int8Mode, Int8Rows};
use dikast_core::{Error, Result};
use serde::Serialize;

/// Where a recording was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Backend name.
    pub backend: String,
    /// Device name.
    pub device: String,
    /// Features and limits, as name and value.
    pub details: Vec<(String, String)>,
}

/// Every step's output for each sequence alone, and the logits alone and in one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Where it was made.
    pub device: Device,
    /// Each sequence alone.
    pub(crate) passes: Vec<Pass>,
    /// Whether all sequences in one batch have the bits that each has alone.
    pub(crate) invariant: bool,
}

/// One sequence's forward pass.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pass {
    pub(crate) batch: Batch,
    /// Row-major, codes as their values.
    pub(crate) tensors: BTreeMap<TensorId, Vec<f32>>,
    pub(crate) logits: Vec<f32>,
}

impl Recording {
    /// What the codes of `standard` quantizers were there: those that are not whole numbers were not rounded.
    pub(crate) fn int8(&self, graph: &Graph) -> Int8Rows {
        let fractions = |id: TensorId| {
            self.passes.iter().filter_map(|p| p.tensors.get(&id)).flatten().any(|v| v.fract() != 0.0)
        };
        let unrounded = graph.steps().iter().any(|step| match step {
            Step::RotateQuantize { rotation, codes, .. } => {
                rotation.mode == Int8Mode::Standard && fractions(*codes)
            }
            _ => false,
        });
        if unrounded { Int8Rows::Unrounded } else { Int8Rows::Codes }
    }
}

/// Runs each sequence alone with all taps, then all in one batch.
///
/// Keeps every activation of every sequence in host memory: for models and texts of test size.
///
/// # Errors
/// As [`Backend::run`]; [`Error::InvalidRequest`] without sequences.
pub async fn record<B: Backend, M: Model>(
    engine: &mut Engine<B, M>,
    sequences: &[&M::Sequence],
) -> Result<Recording> {
    if sequences.is_empty() {
        return Err(Error::invalid("sequences", "none found, at least one is needed"));
    }
    let mut passes = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let mut taps = Taps::all(engine.graph());
        let batch = engine.pack(&[*sequence])?;
        let logits = engine.forward(&batch, &mut taps).await?;
        let wanted = taps.wanted().to_vec();
        let values = wanted.into_iter().filter_map(|id| taps.get(id).map(|v| (id, v.to_vec())));
        passes.push(Pass { batch, tensors: values.collect(), logits });
    }
    let together = engine.logits(sequences).await?;
    let alone = passes.iter().flat_map(|p| &p.logits).map(|x| x.to_bits());
    let invariant = together.iter().flatten().map(|x| x.to_bits()).eq(alone);
    let about = engine.backend().capabilities();
    let device = Device {
        backend: about.backend.clone(),
        device: about.device.clone(),
        details: about.details.clone(),
    };
    Ok(Recording { device, passes, invariant })
}
