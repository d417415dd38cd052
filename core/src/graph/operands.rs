//! What each step is called, reads and writes.

use super::{Step, TensorId, WeightId};

impl Step {
    /// The step's name in listings and profiles.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embed { .. } => "Embed",
            Self::RmsNorm { .. } => "RmsNorm",
            Self::RmsNormQuantize { .. } => "RmsNormQuantize",
            Self::Quantize { .. } => "Quantize",
            Self::LayerNorm { .. } => "LayerNorm",
            Self::Linear { .. } => "Linear",
            Self::LinearGated { .. } => "LinearGated",
            Self::QuantLinear { .. } => "QuantLinear",
            Self::QuantLinearGated { .. } => "QuantLinearGated",
            Self::Attention { .. } => "Attention",
            Self::SelectRows { .. } => "SelectRows",
            Self::PoolSpans { .. } => "PoolSpans",
            Self::PoolText { .. } => "PoolText",
            Self::BiLstm { .. } => "BiLstm",
            Self::L2Normalize { .. } => "L2Normalize",
            Self::Concat { .. } => "Concat",
            Self::PairProduct { .. } => "PairProduct",
            Self::HopfieldMix { .. } => "HopfieldMix",
            Self::Dot { .. } => "Dot",
            Self::Scale { .. } => "Scale",
            Self::Rows { .. } => "Rows",
            Self::RotateQuantize { .. } => "RotateQuantize",
            Self::Int8Linear { .. } => "Int8Linear",
            Self::Int8LinearGated { .. } => "Int8LinearGated",
            Self::CausalConv { .. } => "CausalConv",
            Self::GatedDelta { .. } => "GatedDelta",
            Self::HeadRotary { .. } => "HeadRotary",
            Self::CausalAttention { .. } => "CausalAttention",
            Self::AddPositions { .. } => "AddPositions",
            Self::MergeRows { .. } => "MergeRows",
            Self::ReplaceRows { .. } => "ReplaceRows",
            Self::PoolTableRows { .. } => "PoolTableRows",
            Self::SoftmaxPool { .. } => "SoftmaxPool",
            Self::Sum { .. } => "Sum",
            Self::PairFeatures { .. } => "PairFeatures",
            Self::JointScore { .. } => "JointScore",
        }
    }

    /// Tensors that the step writes.
    pub fn outputs(&self) -> Vec<TensorId> {
        match *self {
            Self::RmsNormQuantize { codes, scales, .. } | Self::Quantize { codes, scales, .. } => {
                vec![codes, scales]
            }
            Self::RotateQuantize { codes, scales, rows, .. } => {
                [codes, scales].into_iter().chain(rows).collect()
            }
            Self::Embed { out, .. }
            | Self::RmsNorm { out, .. }
            | Self::LayerNorm { out, .. }
            | Self::Linear { out, .. }
            | Self::LinearGated { out, .. }
            | Self::QuantLinear { out, .. }
            | Self::QuantLinearGated { out, .. }
            | Self::Attention { out, .. }
            | Self::SelectRows { out, .. }
            | Self::PoolSpans { out, .. }
            | Self::PoolText { out, .. }
            | Self::BiLstm { out, .. }
            | Self::L2Normalize { out, .. }
            | Self::Concat { out, .. }
            | Self::PairProduct { out, .. }
            | Self::HopfieldMix { out, .. }
            | Self::Dot { out, .. }
            | Self::Scale { out, .. }
            | Self::Rows { out, .. }
            | Self::Int8Linear { out, .. }
            | Self::Int8LinearGated { out, .. }
            | Self::CausalConv { out, .. }
            | Self::GatedDelta { out, .. }
            | Self::HeadRotary { out, .. }
            | Self::CausalAttention { out, .. }
            | Self::AddPositions { out, .. }
            | Self::MergeRows { out, .. }
            | Self::ReplaceRows { out, .. }
            | Self::PoolTableRows { out, .. }
            | Self::SoftmaxPool { out, .. }
            | Self::Sum { out, .. }
            | Self::PairFeatures { out, .. }
            | Self::JointScore { out, .. } => vec![out],
        }
    }

    /// Tensors that the step reads.
    pub fn reads(&self) -> Vec<TensorId> {
        match *self {
            Self::Rows { op, .. } | Self::RotateQuantize { op, .. } => op.reads(),
            Self::Int8Linear { codes, scales, residual, .. } => {
                [codes, scales].into_iter().chain(residual).collect()
            }
            Self::Int8LinearGated { codes, scales, .. } => vec![codes, scales],
            Self::CausalConv { x, offsets, .. } => vec![x.tensor, offsets],
            Self::GatedDelta { x, gates, offsets, .. } => vec![x, gates, offsets],
            Self::HeadRotary { ref parts, positions, .. } => {
                parts.iter().map(|p| p.heads.tensor).chain([positions]).collect()
            }
            Self::CausalAttention { q, k, v, offsets, .. } => vec![q.tensor, k.tensor, v.tensor, offsets],
            Self::AddPositions { x, taps, weights, .. } => vec![x, taps, weights],
            Self::MergeRows { x, .. } => vec![x],
            Self::ReplaceRows { x, rows, with, .. } => vec![x, rows, with],
            Self::PoolTableRows { ids, offsets, .. } => vec![ids, offsets],
            Self::SoftmaxPool { x, query, offsets, .. } => vec![x, query, offsets],
            Self::Sum { ref terms, .. } => terms.clone(),
            Self::PairFeatures { left, right, owner, .. } => vec![left, right, owner],
            Self::JointScore {
                question, summary, sequence, lexical, field, option, owner, residual, ..
            } => vec![question, summary, sequence, lexical, field, option, owner, residual],
            Self::Embed { ids, segments, .. } => {
                std::iter::once(ids).chain(segments.map(|(s, _)| s)).collect()
            }
            Self::RmsNorm { x, .. }
            | Self::RmsNormQuantize { x, .. }
            | Self::Quantize { x, .. }
            | Self::LayerNorm { x, .. }
            | Self::LinearGated { x, .. }
            | Self::L2Normalize { x, .. }
            | Self::Scale { x, .. } => vec![x],
            Self::Linear { x, residual, .. } => std::iter::once(x).chain(residual).collect(),
            Self::QuantLinear { codes, scales, residual, .. } => {
                [codes, scales].into_iter().chain(residual).collect()
            }
            Self::QuantLinearGated { codes, scales, .. } => vec![codes, scales],
            Self::Attention { q, k, v, q_offsets, kv_offsets, kv_lengths, .. } => {
                [q.tensor, k.tensor, v.tensor, q_offsets, kv_offsets].into_iter().chain(kv_lengths).collect()
            }
            Self::SelectRows { x, rows, .. } => vec![x, rows],
            Self::PoolSpans { x, spans, .. } | Self::PoolText { x, spans, .. } => vec![x, spans],
            Self::BiLstm { x, offsets, lengths, .. } => vec![x, offsets, lengths],
            Self::Concat { left, left_rows, right, .. } => {
                [left, right].into_iter().chain(left_rows).collect()
            }
            Self::PairProduct { text, classes, owner, .. } | Self::Dot { text, classes, owner, .. } => {
                vec![text, classes, owner]
            }
            Self::HopfieldMix { query, key, value, classes, offsets, .. } => {
                vec![query, key, value, classes, offsets]
            }
        }
    }

    /// Weights that the step reads.
    pub fn weights(&self) -> Vec<WeightId> {
        match *self {
            Self::Embed { table, segments, .. } => {
                std::iter::once(table).chain(segments.map(|(_, w)| w)).collect()
            }
            Self::RmsNorm { weight, .. }
            | Self::RmsNormQuantize { weight, .. }
            | Self::LinearGated { weight, .. } => vec![weight],
            Self::LayerNorm { weight, bias, .. } => vec![weight, bias],
            Self::Linear { weight, bias, .. } => std::iter::once(weight).chain(bias).collect(),
            Self::QuantLinear { weight, weight_scales, .. }
            | Self::QuantLinearGated { weight, weight_scales, .. } => {
                vec![weight, weight_scales]
            }
            Self::Attention { bias, .. } => bias.map(|b| b.table).into_iter().collect(),
            Self::BiLstm { forward, backward, .. } => [forward, backward]
                .into_iter()
                .flat_map(|d| [d.input, d.hidden, d.input_bias, d.hidden_bias])
                .collect(),
            Self::Scale { by, .. } => vec![by],
            Self::Rows { op, .. } | Self::RotateQuantize { op, .. } => op.weights(),
            Self::Int8Linear { weight, weight_scales, bias, .. }
            | Self::Int8LinearGated { weight, weight_scales, bias, .. } => {
                [weight, weight_scales].into_iter().chain(bias).collect()
            }
            Self::CausalConv { weight, .. } => vec![weight],
            Self::GatedDelta { decay, decay_bias, .. } => vec![decay, decay_bias],
            Self::HeadRotary { ref parts, .. } => parts.iter().filter_map(|p| p.norm).collect(),
            Self::AddPositions { table, .. } | Self::PoolTableRows { table, .. } => vec![table],
            Self::JointScore { prior_scale, joint_scale, gate, .. } => vec![prior_scale, joint_scale, gate],
            Self::Quantize { .. }
            | Self::SelectRows { .. }
            | Self::PoolSpans { .. }
            | Self::PoolText { .. }
            | Self::L2Normalize { .. }
            | Self::Concat { .. }
            | Self::PairProduct { .. }
            | Self::HopfieldMix { .. }
            | Self::Dot { .. }
            | Self::CausalAttention { .. }
            | Self::MergeRows { .. }
            | Self::ReplaceRows { .. }
            | Self::SoftmaxPool { .. }
            | Self::Sum { .. }
            | Self::PairFeatures { .. } => vec![],
        }
    }
}
