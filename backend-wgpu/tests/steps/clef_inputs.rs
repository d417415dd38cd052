//! The inputs of CLEF models for packed sequences: what a sequence brings follows from its own tokens alone.

use dikast_core::backend::Batch;
use dikast_core::graph::{InputKind, Sizes, Symbol};

use crate::harness::Packed;

/// Values of a patch; not a multiple of four.
pub(crate) const PATCH_VALUES: usize = 10;
/// Rows of the table of positions.
pub(crate) const POSITIONS: usize = 9;
/// Patches of one media token.
pub(crate) const MERGE: usize = 4;
/// Rows of the table that option tokens name.
pub(crate) const VOCABULARY: usize = 50;
/// Types of questions.
pub(crate) const TYPES: usize = 3;

/// Rows that a sequence has of a symbol.
pub(crate) fn rows(s: &Packed, symbol: Symbol) -> usize {
    let media = if s.ids.len() < 8 { 0 } else { (s.ids.len() / 8).min(5) };
    match symbol {
        Symbol::Tokens => s.ids.len(),
        Symbol::Sequences => 1,
        Symbol::Labels => s.classes.len(),
        Symbol::TextTokens => s.ids.len() - s.text,
        Symbol::Questions => s.classes.len().div_ceil(3),
        Symbol::OptionTokens => (0..s.classes.len()).map(option_tokens).sum(),
        Symbol::Patches => MERGE * media,
        Symbol::MediaTokens => media,
        Symbol::Frames => media.min(2),
    }
}

/// Tokens of an option; some have none.
fn option_tokens(label: usize) -> usize {
    (label + 1) % 4
}

/// The sizes that no other model has.
pub(crate) fn sizes(sequences: &[Packed]) -> Sizes {
    let sum = |symbol| sequences.iter().map(|s| rows(s, symbol)).sum();
    Sizes {
        questions: sum(Symbol::Questions),
        option_tokens: sum(Symbol::OptionTokens),
        patches: sum(Symbol::Patches),
        media_tokens: sum(Symbol::MediaTokens),
        frames: sum(Symbol::Frames),
        ..Sizes::default()
    }
}

/// Adds the inputs that no other model has.
pub(crate) fn fill(sequences: &[Packed], batch: &mut Batch) {
    let mut positions = Vec::new();
    let mut last = Vec::new();
    let (mut spans, mut types, mut of_sequence, mut of_question) = (vec![], vec![], vec![], vec![]);
    let (mut question_offsets, mut option_offsets) = (vec![0], vec![0]);
    let (mut tokens, mut token_offsets) = (Vec::new(), vec![0]);
    let (mut taps, mut patch_positions) = (Vec::new(), Vec::new());
    let (mut patches, mut weights) = (Vec::new(), Vec::new());
    let (mut frames, mut media_rows) = (vec![0], Vec::new());
    let mut first = 0;
    for (index, s) in sequences.iter().enumerate() {
        let seed = s.ids[0];
        for (i, id) in s.ids.iter().enumerate() {
            // Far positions too: their angles are large.
            positions.extend([i as i32 + 15_000 * (id % 2), id % 7, 1000 + id % 11]);
        }
        last.push((first + s.ids.len()) as i32 - 1);
        for (q, classes) in s.classes.chunks(3).enumerate() {
            let (start, end) = classes[0];
            spans.extend([(first + start) as i32, (first + end) as i32]);
            types.push((seed + q as i32) % TYPES as i32);
            of_sequence.push(index as i32);
            let question = option_offsets.len() as i32 - 1;
            of_question.extend(classes.iter().map(|_| question));
            option_offsets.push(option_offsets[option_offsets.len() - 1] + classes.len() as i32);
        }
        question_offsets.push(option_offsets.len() as i32 - 1);
        for label in 0..s.classes.len() {
            let ids = (0..option_tokens(label)).map(|t| (seed + 7 * (label + t) as i32) % VOCABULARY as i32);
            tokens.extend(ids);
            token_offsets.push(tokens.len() as i32);
        }
        let media = rows(s, Symbol::MediaTokens);
        for p in 0..(MERGE * media) as i32 {
            taps.extend((0..4).map(|t| (seed + p * (t + 1)) % POSITIONS as i32));
            weights.extend((0..4).map(|t| ((seed + p + t) % 8) as f32 * 0.125));
            patch_positions.extend([p / 5, p % 5 + 900 * (seed % 2)]);
            patches.extend(
                (0..PATCH_VALUES as i32).map(|v| ((seed * 31 + p * 17 + v * 5) % 64) as f32 / 32.0 - 1.0),
            );
        }
        let start = frames[frames.len() - 1];
        // One patch group in the first frame, the rest in the second.
        if media > 1 {
            frames.push(start + MERGE as i32);
        }
        if media > 0 {
            frames.push(start + (MERGE * media) as i32);
        }
        media_rows.extend((0..media).map(|m| (first + 2 * m + 1) as i32));
        first += s.ids.len();
    }
    for (kind, values) in [
        (InputKind::TokenPositions, positions),
        (InputKind::LastRows, last),
        (InputKind::QuestionSpans, spans),
        (InputKind::QuestionTypes, types),
        (InputKind::QuestionSequences, of_sequence),
        (InputKind::QuestionOffsets, question_offsets),
        (InputKind::OptionOffsets, option_offsets),
        (InputKind::LabelQuestions, of_question),
        (InputKind::OptionTokens, tokens),
        (InputKind::OptionTokenOffsets, token_offsets),
        (InputKind::PositionTaps, taps),
        (InputKind::PatchPositions, patch_positions),
        (InputKind::FrameOffsets, frames),
        (InputKind::MediaRows, media_rows),
    ] {
        batch.set(kind, values);
    }
    batch.set_reals(InputKind::Patches, patches);
    batch.set_reals(InputKind::PositionWeights, weights);
}
