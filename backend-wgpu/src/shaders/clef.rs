//! The shaders of CLEF's own steps.

use super::{ACTIVATION, HALF, MASK, REDUCE};
use crate::format::{Element, Format};

/// A shader of a step that only CLEF models have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ClefShader {
    RowsRms,
    RowsGatedRms,
    RowsSigmoidGate,
    RotateQuantize(RowCodes),
    Int8Linear,
    Int8LinearGated,
    CausalConv,
    DeltaChunks,
    GatedDelta,
    HeadRotary,
    CausalAttention,
    AddPositions,
    MergeRows,
    PlaceRows,
    PoolTableRows(Format),
    SoftmaxPool,
    SumRows,
    PairFeatures,
    JointPrior,
    JointScore,
}

/// What an INT8 row quantizer makes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RowCodes {
    /// Codes, computed in integers.
    Exact,
    /// Codes, computed in f32.
    Standard,
    /// Values in units of the scale, not rounded to codes.
    Unrounded(Element),
}

macro_rules! wgsl {
    ($name:literal) => {
        include_str!(concat!("../../../shaders/", $name, ".wgsl"))
    };
}

const SIGMOID: &str = wgsl!("parts/sigmoid");
const TASK: &str = wgsl!("parts/task");
const IEEE: &str = wgsl!("parts/ieee");
const INT8_TILE: &str = wgsl!("parts/int8_tile");
const FROM_BF16: &str = wgsl!("clef/from_bf16");
const FROM_F32: &str = wgsl!("clef/from_f32");
const ROTATE: &str = wgsl!("clef/rotate_standard");
const TO_CODES: &str = wgsl!("clef/to_codes");

impl ClefShader {
    pub(super) fn entry(self) -> &'static str {
        match self {
            Self::RowsRms => "rows_rms",
            Self::RowsGatedRms => "rows_gated_rms",
            Self::RowsSigmoidGate => "rows_sigmoid_gate",
            Self::RotateQuantize(_) => "rotate_quantize",
            Self::Int8Linear | Self::Int8LinearGated => "int8_product",
            Self::CausalConv => "causal_conv",
            Self::DeltaChunks => "delta_chunks",
            Self::GatedDelta => "gated_delta",
            Self::HeadRotary => "head_rotary",
            Self::CausalAttention => "causal_attention",
            Self::AddPositions => "add_positions",
            Self::MergeRows => "merge_rows",
            Self::PlaceRows => "place_rows",
            Self::PoolTableRows(_) => "pool_table_rows",
            Self::SoftmaxPool => "softmax_pool",
            Self::SumRows => "sum_rows",
            Self::PairFeatures => "pair_features",
            Self::JointPrior => "joint_prior",
            Self::JointScore => "joint_score",
        }
    }

    /// Whether it has its rows from a list of tasks and not from the batch's sizes.
    pub(super) fn has_tasks(self) -> bool {
        matches!(self, Self::CausalConv | Self::DeltaChunks | Self::CausalAttention)
    }

    /// The step's own text, and the parts that go with it.
    pub(super) fn parts(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::RowsRms => (wgsl!("clef/rows_rms"), &[REDUCE, MASK]),
            Self::RowsGatedRms => (wgsl!("clef/rows_gated_rms"), &[REDUCE, SIGMOID]),
            Self::RowsSigmoidGate => (wgsl!("clef/rows_sigmoid_gate"), &[SIGMOID]),
            Self::RotateQuantize(codes) => {
                let parts: &[&str] = match codes {
                    RowCodes::Exact => &[FROM_BF16, wgsl!("clef/rotate_exact"), TO_CODES],
                    RowCodes::Standard => &[FROM_BF16, IEEE, ROTATE, TO_CODES],
                    RowCodes::Unrounded(Element::F16) => {
                        &[FROM_F32, IEEE, ROTATE, HALF, wgsl!("clef/to_f16")]
                    }
                    RowCodes::Unrounded(Element::F32) => &[FROM_F32, IEEE, ROTATE, wgsl!("clef/to_f32")],
                };
                (wgsl!("clef/rotate_quantize"), parts)
            }
            Self::Int8Linear => (wgsl!("clef/int8_linear"), &[INT8_TILE]),
            Self::Int8LinearGated => (wgsl!("clef/int8_linear_gated"), &[INT8_TILE, ACTIVATION]),
            Self::CausalConv => (wgsl!("clef/causal_conv"), &[SIGMOID, TASK]),
            Self::DeltaChunks => (wgsl!("clef/delta_chunks"), &[SIGMOID, TASK]),
            Self::GatedDelta => (wgsl!("clef/gated_delta"), &[]),
            Self::HeadRotary => (wgsl!("clef/head_rotary"), &[REDUCE]),
            Self::CausalAttention => (wgsl!("clef/causal_attention"), &[TASK]),
            Self::AddPositions => (wgsl!("clef/add_positions"), &[]),
            Self::MergeRows => (wgsl!("clef/merge_rows"), &[]),
            Self::PlaceRows => (wgsl!("clef/place_rows"), &[]),
            Self::PoolTableRows(_) => (wgsl!("clef/pool_table_rows"), &[]),
            Self::SoftmaxPool => (wgsl!("clef/softmax_pool"), &[REDUCE, MASK]),
            Self::SumRows => (wgsl!("clef/sum_rows"), &[]),
            Self::PairFeatures => (wgsl!("clef/pair_features"), &[]),
            Self::JointPrior => (wgsl!("clef/joint_prior"), &[REDUCE, MASK]),
            Self::JointScore => (wgsl!("clef/joint_score"), &[REDUCE, MASK, SIGMOID]),
        }
    }

    /// All of them.
    #[cfg(test)]
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let formats = [Format::Bf16, Format::F16, Format::F32];
        [
            Self::RowsRms,
            Self::RowsGatedRms,
            Self::RowsSigmoidGate,
            Self::RotateQuantize(RowCodes::Exact),
            Self::RotateQuantize(RowCodes::Standard),
            Self::RotateQuantize(RowCodes::Unrounded(Element::F16)),
            Self::RotateQuantize(RowCodes::Unrounded(Element::F32)),
            Self::Int8Linear,
            Self::Int8LinearGated,
            Self::CausalConv,
            Self::DeltaChunks,
            Self::GatedDelta,
            Self::HeadRotary,
            Self::CausalAttention,
            Self::AddPositions,
            Self::MergeRows,
            Self::PlaceRows,
            Self::SoftmaxPool,
            Self::SumRows,
            Self::PairFeatures,
            Self::JointPrior,
            Self::JointScore,
        ]
        .into_iter()
        .chain(formats.map(Self::PoolTableRows))
    }
}
