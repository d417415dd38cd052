//! One sequence of a packed batch.

/// A half-open range of token rows of a sequence; empty when `start == end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First row.
    pub start: u32,
    /// One past the last row.
    pub end: u32,
}

/// Token ids of one forward pass over one text, with the rows that the heads read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Token ids, end token included.
    pub ids: Vec<u32>,
    /// Rows that attention may look at: the first `attended` ones. Equal to `ids.len()` unless a reference's padded
    /// batch is replayed.
    pub attended: u32,
    /// Segment id of each token (0, 1 or 2); empty when the model has no segment embeddings.
    pub segments: Vec<u32>,
    /// Rows averaged into each class vector, one span a label; an empty span gives the zero vector.
    pub classes: Vec<Span>,
    /// Rows of the text part.
    pub text: Span,
    /// Zero rows that the reference appends to the text part before pooling.
    pub text_padding: u32,
    /// Text tokens dropped by truncation.
    pub dropped_text_tokens: u32,
}
