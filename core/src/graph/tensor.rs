//! Activations, inputs and weights by name.

use super::Dim;

/// Element type of an activation or input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE binary32. A backend may hold it in 16 bits where the step's contract allows.
    F32,
    /// Signed 32-bit integers: ids, rows, offsets.
    I32,
    /// E4M3 codes, one byte each.
    F8E4M3,
}

impl DType {
    /// Bytes of one element in the reference backend.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F8E4M3 => 1,
        }
    }
}

/// Index of a tensor in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(u32);

/// Index of a weight in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightId(u32);

impl TensorId {
    pub(super) fn new(index: usize) -> Self {
        Self(index as u32)
    }

    /// Position in [`super::Graph::tensors`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl WeightId {
    pub(super) fn new(index: usize) -> Self {
        Self(index as u32)
    }

    /// Position in [`super::Graph::weights`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An activation or an input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// Unique name; what a tap asks for.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Dimensions, row-major.
    pub shape: Vec<Dim>,
}

/// What the host puts into an input tensor; all are I32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InputKind {
    /// `[tokens]` token ids.
    TokenIds,
    /// `[tokens]` segment ids.
    SegmentIds,
    /// `[sequences+1]` first token row of each sequence, then the number of token rows.
    SequenceOffsets,
    /// `[sequences]` rows of each sequence that attention may look at, from its first row.
    AttendedLengths,
    /// `[labels, 2]` half-open token row range of each class.
    ClassSpans,
    /// `[labels]` sequence of each label.
    LabelSequences,
    /// `[sequences+1]` first label of each sequence, then the number of labels.
    LabelOffsets,
    /// `[text_tokens]` token row of each text row.
    TextRows,
    /// `[sequences+1]` first text row of each sequence, then the number of text rows.
    TextOffsets,
    /// `[sequences]` text rows of each sequence that a recurrence reads, from its first text row.
    TextLengths,
    /// `[sequences, 3]` first text row, one past the last, zero rows appended.
    TextSpans,
}

/// An input tensor and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Input {
    /// The tensor.
    pub tensor: TensorId,
    /// What the host puts there.
    pub kind: InputKind,
}

/// Where a weight lives on a device with its own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Residency {
    /// Uploaded whole at load.
    Device,
    /// Stays mapped on the host; only the rows that a batch needs are uploaded.
    HostRows,
}

/// A weight: one tensor of the checkpoint, or several stacked along their first dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Weight {
    /// Name of the whole, for listings.
    pub name: String,
    /// Names of the checkpoint's tensors, stacked in this order.
    pub parts: Vec<String>,
    /// Shape of the whole, `[out, in]` for matrices.
    pub shape: Vec<usize>,
    /// FP8 codes (`true`) or any real storage type.
    pub fp8: bool,
    /// Where it lives.
    pub residency: Residency,
}
