//! Which activations are known to fit binary16.
//!
//! A normed row is bounded by its weights: `|x_i| · rsqrt(mean x²) ≤ √D`, so `RmsNorm` gives at most `√D · max|w|`. That
//! bound survives moving, averaging and concatenating rows. Everything else (the residual stream, attention's mix of
//! values, the gated product of T5, which does exceed 65504 in trained models) is multiplied in f32.

use dikast_core::graph::{Graph, Pool, RowOp, Step};

use crate::resident::WgpuResident;

/// Largest finite binary16.
pub(crate) const LARGEST_F16: f32 = 65504.0;

/// By tensor index, a bound of the magnitudes; infinite where none is known.
pub(crate) fn bounds(graph: &Graph, resident: &WgpuResident) -> Vec<f32> {
    let mut bounds = vec![f32::INFINITY; graph.tensors().len()];
    let root = |id| {
        let columns: usize = graph
            .tensor(id)
            .shape
            .iter()
            .skip(1)
            .map(|d| match d {
                dikast_core::graph::Dim::Fixed(n) => *n,
                _ => usize::MAX,
            })
            .sum();
        (columns as f32).sqrt()
    };
    for step in graph.steps() {
        match *step {
            Step::RmsNorm { x, weight, out, .. } => {
                bounds[out.index()] = root(x) * resident.largest(weight);
            }
            // These weights are stored around zero.
            Step::Rows { op: RowOp::RmsNorm { x, weight, .. }, out }
            | Step::RotateQuantize { op: RowOp::RmsNorm { x, weight, .. }, rows: Some(out), .. } => {
                bounds[out.index()] = root(x) * (1.0 + resident.largest(weight));
            }
            Step::MergeRows { x, out } => bounds[out.index()] = bounds[x.index()],
            Step::LayerNorm { x, weight, bias, out, .. } => {
                bounds[out.index()] = root(x) * resident.largest(weight) + resident.largest(bias);
            }
            Step::L2Normalize { out, .. } => bounds[out.index()] = 1.0,
            Step::SelectRows { x, out, .. } | Step::PoolSpans { x, out, .. } => {
                bounds[out.index()] = bounds[x.index()];
            }
            Step::PoolText { x, pool, out, .. } if pool != Pool::Sum => {
                bounds[out.index()] = bounds[x.index()];
            }
            Step::Concat { left, right, out, .. } => {
                bounds[out.index()] = bounds[left.index()].max(bounds[right.index()]);
            }
            _ => {}
        }
    }
    bounds
}
