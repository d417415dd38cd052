//! Truncation of a tokenized prompt.

use super::Rendered;
use crate::request::Truncation;
use crate::tokens::Encoded;
use crate::{Error, Result};
use std::ops::Range;

/// Cuts the content so that it and the tokens around it fit; returns the number of text tokens dropped.
pub(super) fn cut(
    encoded: &mut Encoded,
    rendered: &Rendered,
    truncation: Truncation,
    limit: usize,
    surrounding: usize,
    what: &str,
) -> Result<usize> {
    let actual = encoded.ids.len() + surrounding;
    if actual <= limit {
        return Ok(0);
    }
    let too_large = |what: String, actual: usize| {
        Err(Error::TooLarge { what, limit: limit as u64, actual: actual as u64 })
    };
    let text = text_tokens(encoded, rendered.text());
    match truncation {
        Truncation::Refuse => too_large(what.to_owned(), actual),
        Truncation::Text => {
            let excess = actual - limit;
            if excess > text.len() {
                return too_large(besides_the_text(what), actual - text.len());
            }
            let dropped = text.end - excess..text.end;
            encoded.ids.drain(dropped.clone());
            encoded.offsets.drain(dropped);
            Ok(excess)
        }
        Truncation::Right => {
            let Some(kept) = limit.checked_sub(surrounding) else {
                let message =
                    format!("{limit} found, the {surrounding} tokens around the content are always kept");
                return Err(Error::invalid("max_tokens", message));
            };
            encoded.ids.truncate(kept);
            encoded.offsets.truncate(kept);
            Ok(text.end.saturating_sub(kept).min(text.len()))
        }
    }
}

/// The name of what is left without the text.
pub(super) fn besides_the_text(what: &str) -> String {
    format!("{what} besides the text (labels, prompt and examples, which are never cut)")
}

/// The tokens of the text alone. A token that the prompt shares with the text belongs to the prompt.
fn text_tokens(encoded: &Encoded, text: Range<usize>) -> Range<usize> {
    let starts = || encoded.offsets.iter().map(|&(start, _)| start);
    let tokens = encoded.offsets.len();
    let first = starts().position(|start| start >= text.start).unwrap_or(tokens);
    let end = starts().skip(first).position(|start| start >= text.end).map_or(tokens, |end| first + end);
    first..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_tokens_are_found_by_offset() {
        let tokens = |offsets: &[(usize, usize)], text: Range<usize>| {
            let encoded = Encoded { ids: vec![0; offsets.len()], offsets: offsets.to_vec() };
            text_tokens(&encoded, text)
        };
        // Labels, then a token across the border, the text, an example.
        let offsets = [(0, 9), (9, 12), (12, 16), (16, 16), (16, 20), (20, 31)];
        assert_eq!(tokens(&offsets, 14..20), 3..5);
        assert_eq!(tokens(&offsets, 12..20), 2..5);
        assert_eq!(tokens(&offsets, 20..20), 5..5);
        assert_eq!(tokens(&offsets, 31..31), 6..6);
        assert_eq!(tokens(&offsets, 0..9), 0..1);
        assert_eq!(tokens(&[], 0..0), 0..0);
    }
}
