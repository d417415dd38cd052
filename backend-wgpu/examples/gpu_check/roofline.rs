//! The least time that a step can take on a device: its arithmetic, or its bytes, whichever is longer.

use dikast_core::graph::{DType, Elements, Graph, InputKind, Sizes, Step, TensorId, WeightId};

use crate::ceilings::Ceilings;

/// Seconds that a step takes at the device's ceilings for this batch.
pub(crate) fn floor(
    graph: &Graph,
    step: &Step,
    sizes: &Sizes,
    lengths: &[usize],
    matrices: bool,
    ceilings: &Ceilings,
) -> f64 {
    let quantized = matches!(step, Step::QuantLinear { .. } | Step::QuantLinearGated { .. });
    let rate = match ceilings.cooperative {
        Some(rate) if matrices && quantized => rate,
        _ => ceilings.portable,
    };
    (flops(graph, step, sizes, lengths) / rate).max(bytes(graph, step, sizes) / ceilings.bandwidth)
}

fn rows(graph: &Graph, id: TensorId, sizes: &Sizes) -> f64 {
    graph.tensor(id).shape[0].bind(sizes) as f64
}

/// Floating-point operations of products and attention; the other steps count by their bytes.
pub(crate) fn flops(graph: &Graph, step: &Step, sizes: &Sizes, lengths: &[usize]) -> f64 {
    let product = |x: TensorId, weight: WeightId| {
        2.0 * rows(graph, x, sizes) * graph.weight(weight).shape.iter().product::<usize>() as f64
    };
    match *step {
        Step::Linear { x, weight, .. } | Step::LinearGated { x, weight, .. } => product(x, weight),
        Step::QuantLinear { codes, weight, .. } | Step::QuantLinearGated { codes, weight, .. } => {
            product(codes, weight)
        }
        Step::Attention { q_offsets, kv_offsets, heads, head_dim, .. } => {
            let same = q_offsets == kv_offsets;
            let itself =
                graph.inputs().iter().any(|i| i.tensor == q_offsets && i.kind == InputKind::SequenceOffsets);
            // The cross-attention of a scorer is small.
            let pairs: f64 = if same && itself { lengths.iter().map(|l| (l * l) as f64).sum() } else { 0.0 };
            4.0 * pairs * (heads * head_dim) as f64
        }
        _ => 0.0,
    }
}

/// Bytes that a step reads and writes at least once.
fn bytes(graph: &Graph, step: &Step, sizes: &Sizes) -> f64 {
    let tensor = |id: TensorId| {
        let width = match graph.tensor(id).dtype {
            DType::F8E4M3 | DType::I8 => 1,
            DType::F32 | DType::I32 => 4,
        };
        (graph.len(id, sizes) * width) as f64
    };
    let weights: f64 = match step {
        // Only the rows of the tokens.
        Step::Embed { .. } => 0.0,
        _ => step
            .weights()
            .iter()
            .map(|&id| {
                let weight = graph.weight(id);
                (weight.shape.iter().product::<usize>()
                    * if weight.elements == Elements::E4M3 { 1 } else { 2 }) as f64
            })
            .sum(),
    };
    weights + step.reads().into_iter().chain(step.outputs()).map(tensor).sum::<f64>()
}
