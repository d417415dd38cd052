//! Input far over the token limit, without tokenizing it whole.
//!
//! Tokenizing takes a few hundred bytes of memory for each byte of text, and far more where a character stands for
//! many. So long input is first counted piece by piece. No length bounds the count from below (any number of blanks,
//! or of unknown characters, can be one token), and a cut changes tokens beside it: nothing is decided by this count
//! unless it is more than twice the limit. What is closer to the limit is tokenized whole.

use crate::tokens::Tokenizer;
use crate::{Error, Result};
use std::ops::ControlFlow;

/// Input up to this length is tokenized whole.
const SHORT: usize = 64 << 10;
/// Longest piece.
const PIECE: usize = 16 << 10;

/// Refuses text that is far over the limit; the error's count is the one at which counting stopped.
pub(super) fn refuse(tokenizer: &Tokenizer, text: &str, limit: usize, what: &str) -> Result<()> {
    let mut count = 0;
    let far = pieces(text).try_for_each(|(_, piece)| {
        count += match tokenizer.encode(piece) {
            Ok(encoded) => encoded.ids.len(),
            Err(error) => return ControlFlow::Break(Err(error)),
        };
        if far_over(count, limit) { ControlFlow::Break(Ok(())) } else { ControlFlow::Continue(()) }
    });
    match far {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(Err(error)) => Err(error),
        ControlFlow::Break(Ok(())) => Err(Error::TooLarge {
            what: format!("{what}, at least"),
            limit: limit as u64,
            actual: count as u64,
        }),
    }
}

/// A beginning of the text that is still over the limit, and the number of tokens after it.
pub(super) fn shorten<'t>(tokenizer: &Tokenizer, text: &'t str, limit: usize) -> Result<(&'t str, usize)> {
    let (mut kept, mut count, mut rest) = (text, 0, 0);
    for (end, piece) in pieces(text) {
        let tokens = tokenizer.encode(piece)?.ids.len();
        if far_over(count, limit) {
            rest += tokens;
            continue;
        }
        count += tokens;
        if far_over(count, limit) {
            kept = &text[..end];
        }
    }
    Ok((kept, rest))
}

fn far_over(count: usize, limit: usize) -> bool {
    count > limit.saturating_mul(2)
}

/// The pieces of a long text, each with the byte where it ends; none of a short text. A piece ends before the last
/// blank in it, or where it is full if it has none.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = if text.len() > SHORT { 0 } else { text.len() };
    std::iter::from_fn(move || {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let full = rest.floor_char_boundary(PIECE);
        let length = match rest[..full].rfind(' ') {
            Some(blank) if blank > 0 && full < rest.len() => blank,
            _ => full,
        };
        start += length;
        Some((start, &rest[..length]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_long_text() {
        assert_eq!(pieces(&"x".repeat(SHORT)).count(), 0);
        for text in
            ["x".repeat(SHORT + 1), "é".repeat(SHORT), "some words ".repeat(SHORT / 8), " ".repeat(SHORT + 9)]
        {
            let (mut joined, mut ends) = (String::new(), Vec::new());
            for (end, piece) in pieces(&text) {
                assert!(!piece.is_empty() && piece.len() <= PIECE);
                joined.push_str(piece);
                assert_eq!(end, joined.len());
                ends.push(end);
            }
            assert_eq!(joined, text);
            let words = text.starts_with("some");
            assert!(!words || ends.iter().rev().skip(1).all(|&end| text[end..].starts_with(' ')));
        }
    }
}
