//! Names, types and shapes of what a batch brings along.

use super::{DType, Dim, InputKind, Symbol};

impl InputKind {
    /// Name of the input tensor.
    pub fn name(self) -> &'static str {
        match self {
            Self::TokenIds => "token_ids",
            Self::SegmentIds => "segment_ids",
            Self::SequenceOffsets => "sequence_offsets",
            Self::AttendedLengths => "attended_lengths",
            Self::ClassSpans => "class_spans",
            Self::LabelSequences => "label_sequences",
            Self::LabelOffsets => "label_offsets",
            Self::TextRows => "text_rows",
            Self::TextOffsets => "text_offsets",
            Self::TextLengths => "text_lengths",
            Self::TextSpans => "text_spans",
            Self::TokenPositions => "token_positions",
            Self::LastRows => "last_rows",
            Self::QuestionSpans => "question_spans",
            Self::QuestionTypes => "question_types",
            Self::QuestionSequences => "question_sequences",
            Self::QuestionOffsets => "question_offsets",
            Self::OptionOffsets => "option_offsets",
            Self::LabelQuestions => "label_questions",
            Self::OptionTokens => "option_tokens",
            Self::OptionTokenOffsets => "option_token_offsets",
            Self::Patches => "patches",
            Self::PositionTaps => "position_taps",
            Self::PositionWeights => "position_weights",
            Self::PatchPositions => "patch_positions",
            Self::FrameOffsets => "frame_offsets",
            Self::MediaRows => "media_rows",
        }
    }

    /// Element type of the input tensor.
    pub fn dtype(self) -> DType {
        match self {
            Self::Patches | Self::PositionWeights => DType::F32,
            _ => DType::I32,
        }
    }

    /// Shape of the input tensor; of [`Self::Patches`] without the width, which is the model's.
    pub fn shape(self) -> Vec<Dim> {
        match self {
            Self::TokenIds | Self::SegmentIds => vec![Symbol::Tokens.into()],
            Self::SequenceOffsets | Self::LabelOffsets | Self::TextOffsets => {
                vec![Dim::Offsets(Symbol::Sequences)]
            }
            Self::AttendedLengths | Self::TextLengths => vec![Symbol::Sequences.into()],
            Self::ClassSpans => vec![Symbol::Labels.into(), 2.into()],
            Self::LabelSequences => vec![Symbol::Labels.into()],
            Self::TextRows => vec![Symbol::TextTokens.into()],
            Self::TextSpans => vec![Symbol::Sequences.into(), 3.into()],
            Self::TokenPositions => vec![Symbol::Tokens.into(), 3.into()],
            Self::LastRows => vec![Symbol::Sequences.into()],
            Self::QuestionSpans => vec![Symbol::Questions.into(), 2.into()],
            Self::QuestionTypes => vec![Symbol::Questions.into()],
            Self::QuestionSequences => vec![Symbol::Questions.into()],
            Self::QuestionOffsets => vec![Dim::Offsets(Symbol::Sequences)],
            Self::OptionOffsets => vec![Dim::Offsets(Symbol::Questions)],
            Self::LabelQuestions => vec![Symbol::Labels.into()],
            Self::OptionTokens => vec![Symbol::OptionTokens.into()],
            Self::OptionTokenOffsets => vec![Dim::Offsets(Symbol::Labels)],
            Self::PositionTaps => vec![Symbol::Patches.into(), 4.into()],
            Self::PositionWeights => vec![Symbol::Patches.into(), 4.into()],
            Self::PatchPositions => vec![Symbol::Patches.into(), 2.into()],
            Self::FrameOffsets => vec![Dim::Offsets(Symbol::Frames)],
            Self::MediaRows => vec![Symbol::MediaTokens.into()],
            Self::Patches => vec![Symbol::Patches.into()],
        }
    }
}
