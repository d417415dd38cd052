//! A request as one sequence.

use crate::media::MediaKind;
use crate::request::QuestionKind;
use crate::tokens::Span;

/// The sequence of one request, with the rows that the vision tower writes and the head reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Position of each token on the three axes time, height and width; all equal to its index without media.
    pub positions: Vec<[i32; 3]>,
    /// Rows of the media part: placeholders and the line feed after them; empty without media.
    pub media: Span,
    /// Rows whose embeddings the vision tower's rows replace: those of the pictures, then those of the videos.
    pub media_rows: Vec<u32>,
    /// The runs of those rows: one a picture, one a frame pair of a video.
    pub media_spans: Vec<MediaSpan>,
    /// Rows of the state.
    pub state: Span,
    /// What the head reads of each question, in request order.
    pub questions: Vec<QuestionSlots>,
    /// Tokens of the state that were dropped; 0 unless truncation was asked for.
    pub dropped_state_tokens: usize,
}

impl Record {
    /// Tokens.
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }
}

/// What the head reads of one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionSlots {
    /// Its type.
    pub kind: QuestionKind,
    /// Rows of the instructions; never empty.
    pub span: Span,
    /// Rows of each option, in the order in which the model reads them; none is empty.
    pub options: Vec<Span>,
    /// Ids of the options in the same order.
    pub option_ids: Vec<String>,
}

/// Rows of one picture, or of one frame pair of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaSpan {
    /// Picture or video.
    pub kind: MediaKind,
    /// Index among the request's pictures or videos.
    pub item: u32,
    /// Frame pair of the video; 0 for a picture.
    pub frame: u32,
    /// Its rows.
    pub rows: Span,
    /// Height and width in merged squares; their product is the number of rows.
    pub grid: [u32; 2],
}
