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
    /// INT8 codes.
    I8,
}

impl DType {
    /// Bytes of one element in the reference backend.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F8E4M3 | Self::I8 => 1,
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

/// What the host puts into an input tensor; I32 unless another type is named.
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
    /// `[tokens, 3]` time, row and column of each token.
    TokenPositions,
    /// `[sequences]` last token row of each sequence.
    LastRows,
    /// `[questions, 2]` half-open token row range of each question.
    QuestionSpans,
    /// `[questions]` type of each question.
    QuestionTypes,
    /// `[questions]` sequence of each question.
    QuestionSequences,
    /// `[sequences+1]` first question of each sequence, then the number of questions.
    QuestionOffsets,
    /// `[questions+1]` first option of each question, then the number of options.
    OptionOffsets,
    /// `[labels]` question of each option.
    LabelQuestions,
    /// `[option_tokens]` token ids of all options.
    OptionTokens,
    /// `[labels+1]` first entry of each option in the list of option tokens, then its length.
    OptionTokenOffsets,
    /// `[patches, values]` F32 pixels of each patch; the width is the model's.
    Patches,
    /// `[patches, 4]` rows of the table of learned positions.
    PositionTaps,
    /// `[patches, 4]` F32 weight of each of those rows.
    PositionWeights,
    /// `[patches, 2]` row and column of each patch.
    PatchPositions,
    /// `[frames+1]` first patch of each picture or frame, then the number of patches.
    FrameOffsets,
    /// `[media_tokens]` token row of each media token.
    MediaRows,
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

/// What the elements of a weight are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Elements {
    /// Numbers in any floating-point type.
    Real,
    /// E4M3 codes.
    E4M3,
    /// INT8 codes.
    Int8,
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
    /// What its elements are.
    pub elements: Elements,
    /// Where it lives.
    pub residency: Residency,
}
