//! Sequences → one packed batch.

use crate::backend::Batch;
use crate::graph::{Graph, InputKind, Sizes};
use crate::tokens::Sequence;
use crate::{Error, Result};

/// The sizes of a batch of these sequences. `selects_text` says whether the head reads its own copy of the text rows.
pub fn sizes(sequences: &[&Sequence], selects_text: bool) -> Sizes {
    let sum = |f: fn(&Sequence) -> usize| sequences.iter().map(|s| f(s)).sum();
    Sizes {
        tokens: sum(|s| s.ids.len()),
        sequences: sequences.len(),
        labels: sum(|s| s.classes.len()),
        text_tokens: if selects_text { sum(text_len) } else { 0 },
        ..Sizes::default()
    }
}

/// Packs sequences without padding: rows one after the other, offsets beside them.
///
/// # Errors
/// [`Error::Internal`] when a row number does not fit 32 bits or the graph wants segment ids that a sequence lacks.
pub fn pack(graph: &Graph, sequences: &[&Sequence], selects_text: bool) -> Result<Batch> {
    let sizes = sizes(sequences, selects_text);
    let largest = sizes.tokens.max(sizes.labels).max(sizes.text_tokens);
    if i32::try_from(largest).is_err() {
        return Err(Error::TooLarge {
            what: "rows of a batch".into(),
            limit: i32::MAX as u64,
            actual: largest as u64,
        });
    }
    let mut batch = Batch::new(sizes);
    for input in graph.inputs() {
        batch.set(input.kind, values(input.kind, sequences, selects_text)?);
    }
    Ok(batch)
}

fn values(kind: InputKind, sequences: &[&Sequence], selects_text: bool) -> Result<Vec<i32>> {
    let tokens = |s: &Sequence| s.ids.len();
    let text_base = if selects_text { text_len } else { tokens };
    Ok(match kind {
        InputKind::TokenIds => sequences.iter().flat_map(|s| s.ids.iter().map(|&id| id as i32)).collect(),
        InputKind::SegmentIds => {
            if sequences.iter().any(|s| s.segments.len() != s.ids.len()) {
                return Err(Error::Internal("a sequence has no segment ids".to_owned()));
            }
            sequences.iter().flat_map(|s| s.segments.iter().map(|&id| id as i32)).collect()
        }
        InputKind::SequenceOffsets => offsets(sequences, tokens),
        InputKind::AttendedLengths => sequences.iter().map(|s| s.attended as i32).collect(),
        InputKind::ClassSpans => with_base(sequences, tokens, |s, base, out| {
            for span in &s.classes {
                out.extend([base + span.start as i32, base + span.end as i32]);
            }
        }),
        InputKind::LabelSequences => sequences
            .iter()
            .enumerate()
            .flat_map(|(i, s)| std::iter::repeat_n(i as i32, s.classes.len()))
            .collect(),
        InputKind::LabelOffsets => offsets(sequences, |s| s.classes.len()),
        InputKind::TextRows => with_base(sequences, tokens, |s, base, out| {
            out.extend((s.text.start..s.text.end).map(|row| base + row as i32));
        }),
        InputKind::TextOffsets => offsets(sequences, text_len),
        InputKind::TextLengths => sequences
            .iter()
            .map(|s| s.attended.saturating_sub(s.text.start).min(s.text.end - s.text.start) as i32)
            .collect(),
        InputKind::TextSpans => with_base(sequences, text_base, |s, base, out| {
            let first = if selects_text { 0 } else { s.text.start as i32 };
            out.extend([base + first, base + first + text_len(s) as i32, s.text_padding as i32]);
        }),
        other => {
            return Err(Error::Internal(format!("a classification has no input {}", other.name())));
        }
    })
}

fn text_len(s: &Sequence) -> usize {
    (s.text.end - s.text.start) as usize
}

fn offsets(sequences: &[&Sequence], len: impl Fn(&Sequence) -> usize) -> Vec<i32> {
    let mut at = 0;
    std::iter::once(0)
        .chain(sequences.iter().map(|s| {
            at += len(s) as i32;
            at
        }))
        .collect()
}

fn with_base(
    sequences: &[&Sequence],
    len: impl Fn(&Sequence) -> usize,
    mut write: impl FnMut(&Sequence, i32, &mut Vec<i32>),
) -> Vec<i32> {
    let (mut base, mut out) = (0, Vec::new());
    for s in sequences {
        write(s, base, &mut out);
        base += len(s) as i32;
    }
    out
}
