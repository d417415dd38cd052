//! The shaders of CLEF's own steps.

use super::{ACTIVATION, MASK, REDUCE};
use crate::format::Format;

/// A shader of a step that only CLEF models have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ClefShader {
    RowsRms,
    RowsGatedRms,
    RowsSigmoidGate,
    /// The INT8 row quantizer in integers, or in f32.
    RotateQuantize {
        exact: bool,
    },
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

macro_rules! wgsl {
    ($name:literal) => {
        include_str!(concat!("../../../shaders/", $name, ".wgsl"))
    };
}

const SIGMOID: &str = wgsl!("parts/sigmoid");
const TASK: &str = wgsl!("parts/task");
const IEEE: &str = wgsl!("parts/ieee");
const INT8_TILE: &str = wgsl!("parts/int8_tile");

impl ClefShader {
    pub(super) fn entry(self) -> &'static str {
        match self {
            Self::RowsRms => "rows_rms",
            Self::RowsGatedRms => "rows_gated_rms",
            Self::RowsSigmoidGate => "rows_sigmoid_gate",
            Self::RotateQuantize { .. } => "rotate_quantize",
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
            Self::RotateQuantize { exact: true } => {
                (wgsl!("clef/rotate_quantize"), &[wgsl!("clef/rotate_exact")])
            }
            Self::RotateQuantize { exact: false } => {
                (wgsl!("clef/rotate_quantize"), &[IEEE, wgsl!("clef/rotate_standard")])
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
            Self::RotateQuantize { exact: true },
            Self::RotateQuantize { exact: false },
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
