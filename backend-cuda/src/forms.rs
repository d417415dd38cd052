//! In which form each weight of a graph lies on the device.

use std::collections::BTreeMap;

use dikast_core::checkpoint::{StoredType, TensorView, Weights};
use dikast_core::graph::{Elements, Graph, LstmDirection, RelativeBias, Residency, Sizes, Step, WeightId};
use dikast_core::{Error, Result};

use crate::layout;

/// How a step wants a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// E4M3 or INT8 codes, tiled; `half` is the height of one half of a gated weight, or 0.
    Codes { half: usize },
    /// bfloat16 planes, tiled.
    Real { half: usize },
    /// f32 in the stored order, padded with zeros.
    Vector,
    /// One f32 a row of a tiled weight, a scale or a bias: in the order of its rows on the device.
    RowScales { half: usize },
    /// Relative bias by distance, `[heads][2·max_distance + 1]`.
    Distances { buckets: usize, max_distance: usize },
    /// f32 sum with another vector.
    SumWith(WeightId),
}

/// A weight in a form.
pub(crate) type Key = (WeightId, Form);

/// Which weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// All of them.
    All,
    /// Those that a batch without pictures and videos needs.
    Text,
    /// The others.
    Media,
}

/// The forms of weights that do not stay on the host, in the graph's order.
pub(crate) fn of(graph: &Graph, which: Which) -> Vec<Key> {
    if which == Which::All {
        return of_steps(graph, |_| true);
    }
    // One of everything but media.
    let text = Sizes {
        tokens: 1,
        sequences: 1,
        labels: 1,
        text_tokens: 1,
        questions: 1,
        option_tokens: 1,
        patches: 0,
        media_tokens: 0,
        frames: 0,
    };
    let own = of_steps(graph, |step| step.outputs().iter().any(|out| graph.len(*out, &text) > 0));
    match which {
        Which::Media => of_steps(graph, |_| true).into_iter().filter(|key| !own.contains(key)).collect(),
        _ => own,
    }
}

fn of_steps(graph: &Graph, wanted: impl Fn(&Step) -> bool) -> Vec<Key> {
    let mut keys = Vec::new();
    let half = |weight: WeightId| graph.weight(weight).shape[0] / 2;
    for step in graph.steps().iter().filter(|step| wanted(step)) {
        match *step {
            Step::Embed { table, segments, .. } => {
                keys.extend(segments.map(|(_, table)| (table, Form::Vector)));
                if graph.weight(table).residency == Residency::Device {
                    keys.push((table, Form::Vector));
                }
            }
            Step::RmsNorm { weight, .. } | Step::RmsNormQuantize { weight, .. } => {
                keys.push((weight, Form::Vector));
            }
            Step::LayerNorm { weight, bias, .. } => {
                keys.extend([(weight, Form::Vector), (bias, Form::Vector)]);
            }
            Step::Linear { weight, bias, .. } => {
                keys.push((weight, Form::Real { half: 0 }));
                keys.extend(bias.map(|b| (b, Form::Vector)));
            }
            Step::LinearGated { weight, .. } => keys.push((weight, Form::Real { half: half(weight) })),
            Step::QuantLinear { weight, weight_scales, .. } => {
                keys.extend([
                    (weight, Form::Codes { half: 0 }),
                    (weight_scales, Form::RowScales { half: 0 }),
                ]);
            }
            Step::QuantLinearGated { weight, weight_scales, .. } => {
                let half = half(weight);
                keys.extend([(weight, Form::Codes { half }), (weight_scales, Form::RowScales { half })]);
            }
            Step::Attention { bias, .. } => keys.extend(bias.map(|b| (b.table, distances(&b)))),
            Step::BiLstm { forward, backward, .. } => {
                for LstmDirection { input, hidden, input_bias, hidden_bias } in [forward, backward] {
                    keys.extend([
                        (input, Form::Vector),
                        (hidden, Form::Vector),
                        (input_bias, Form::SumWith(hidden_bias)),
                    ]);
                }
            }
            Step::Scale { by, .. } => keys.push((by, Form::Vector)),
            Step::Quantize { .. }
            | Step::SelectRows { .. }
            | Step::PoolSpans { .. }
            | Step::PoolText { .. }
            | Step::L2Normalize { .. }
            | Step::Concat { .. }
            | Step::PairProduct { .. }
            | Step::HopfieldMix { .. }
            | Step::Dot { .. } => {}
            Step::Rows { op, .. } | Step::RotateQuantize { op, .. } => {
                keys.extend(op.weights().into_iter().map(|w| (w, Form::Vector)));
            }
            Step::Int8Linear { weight, weight_scales, bias, .. } => {
                keys.push((weight, Form::Codes { half: 0 }));
                keys.extend(
                    bias.into_iter().chain([weight_scales]).map(|w| (w, Form::RowScales { half: 0 })),
                );
            }
            Step::Int8LinearGated { weight, weight_scales, bias, .. } => {
                let half = half(weight);
                keys.push((weight, Form::Codes { half }));
                keys.extend(bias.into_iter().chain([weight_scales]).map(|w| (w, Form::RowScales { half })));
            }
            Step::CausalConv { weight, .. } => keys.push((weight, Form::Vector)),
            Step::GatedDelta { decay, decay_bias, .. } => {
                keys.extend([(decay, Form::Vector), (decay_bias, Form::Vector)]);
            }
            Step::HeadRotary { ref parts, .. } => {
                keys.extend(parts.iter().filter_map(|p| p.norm).map(|w| (w, Form::Vector)));
            }
            Step::AddPositions { table, .. } => keys.push((table, Form::Vector)),
            Step::JointScore { prior_scale, joint_scale, gate, .. } => {
                keys.extend([prior_scale, joint_scale, gate].map(|w| (w, Form::Vector)));
            }
            Step::PoolTableRows { table, .. } => {
                if graph.weight(table).residency == Residency::Device {
                    keys.push((table, Form::Vector));
                }
            }
            Step::CausalAttention { .. }
            | Step::MergeRows { .. }
            | Step::ReplaceRows { .. }
            | Step::SoftmaxPool { .. }
            | Step::Sum { .. }
            | Step::PairFeatures { .. } => {}
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The form of a relative bias.
pub(crate) fn distances(bias: &RelativeBias) -> Form {
    Form::Distances { buckets: bias.buckets, max_distance: bias.max_distance }
}

/// Where a weight lies in the block of all weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: usize,
    /// Bytes from a bfloat16 head plane to its tail plane, where there is one.
    pub(crate) tail: Option<usize>,
    /// Bytes in all.
    pub(crate) bytes: usize,
}

/// Offsets of all weights, and the bytes of the block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Placement {
    pub(crate) places: BTreeMap<Key, Place>,
    pub(crate) bytes: usize,
}

/// Bulk copies and vector loads want their sources aligned; tiles are kept on their own boundaries.
const ALIGN: usize = 1024;

/// Places weights of a graph.
pub(crate) fn place(graph: &Graph, weights: &Weights, which: Which) -> Result<Placement> {
    let mut placement = Placement::default();
    for key in of(graph, which) {
        let (weight, form) = key;
        let shape = &graph.weight(weight).shape;
        let rows = shape.first().copied().unwrap_or(1);
        let k = shape.get(1).copied().unwrap_or(1);
        let (bytes, tail) = match form {
            Form::Codes { half } => (layout::weight_bytes(rows, half, layout::k_blocks(k, 1)), None),
            Form::Real { half } => {
                let plane = layout::weight_bytes(rows, half, layout::k_blocks(k, 2));
                if parts(graph, weights, weight)?.iter().all(|p| p.dtype == StoredType::BF16) {
                    (plane, None)
                } else {
                    (2 * plane, Some(plane))
                }
            }
            Form::Vector | Form::SumWith(_) => {
                (4 * shape.iter().product::<usize>().next_multiple_of(128), None)
            }
            Form::RowScales { half } => (4 * layout::weight_rows(rows, half), None),
            Form::Distances { max_distance, .. } => (4 * k * (2 * max_distance + 1), None),
        };
        placement.places.insert(key, Place { offset: placement.bytes, tail, bytes });
        placement.bytes += bytes.next_multiple_of(ALIGN);
    }
    Ok(placement)
}

/// The stored tensors of a weight, checked against the graph.
pub(crate) fn parts<'a>(
    graph: &Graph,
    weights: &'a Weights,
    weight: WeightId,
) -> Result<Vec<TensorView<'a>>> {
    let weight = graph.weight(weight);
    let mut rows = 0;
    let mut views = Vec::new();
    for part in &weight.parts {
        let view = weights.tensor(part)?;
        rows += view.shape.first().copied().unwrap_or(1);
        let row: usize = weight.shape.iter().skip(1).product();
        if view.row_len() != row || elements(view.dtype) != weight.elements {
            return Err(Error::checkpoint(
                part,
                format!("{:?} {:?} does not fit {} {:?}", view.dtype, view.shape, weight.name, weight.shape),
            ));
        }
        views.push(view);
    }
    if rows == weight.shape.first().copied().unwrap_or(1) {
        Ok(views)
    } else {
        Err(Error::checkpoint(&weight.name, format!("{rows} rows found, {:?} needed", weight.shape)))
    }
}

/// What a stored type is to the graph.
fn elements(stored: StoredType) -> Elements {
    match stored {
        StoredType::F8E4M3 => Elements::E4M3,
        StoredType::I8 => Elements::Int8,
        StoredType::F32 | StoredType::F16 | StoredType::BF16 => Elements::Real,
    }
}

/// The whole of a small weight as f32, in its form.
pub(crate) fn small(graph: &Graph, weights: &Weights, (weight, form): Key) -> Result<Vec<f32>> {
    let values = |weight| -> Result<Vec<f32>> {
        Ok(parts(graph, weights, weight)?.iter().flat_map(TensorView::to_f32).collect())
    };
    let stored = values(weight)?;
    Ok(match form {
        Form::SumWith(other) => stored.iter().zip(values(other)?).map(|(a, b)| a + b).collect(),
        Form::RowScales { half } => {
            let mut placed = vec![0.0; layout::weight_rows(stored.len(), half)];
            for (row, scale) in stored.into_iter().enumerate() {
                placed[layout::place_of(row, half)] = scale;
            }
            placed
        }
        Form::Distances { buckets, max_distance } => {
            let bias = RelativeBias { table: weight, buckets, max_distance };
            let heads = stored.len() / buckets;
            let reach = max_distance as i64;
            (0..heads)
                .flat_map(|head| {
                    let (stored, bias) = (&stored, &bias);
                    (-reach..=reach).map(move |distance| stored[bias.bucket(distance) * heads + head])
                })
                .collect()
        }
        Form::Vector | Form::Codes { .. } | Form::Real { .. } => stored,
    })
}
