//! Truncation of a tokenized prompt.

use super::{Part, Rendered};
use crate::request::Truncation;
use crate::tokens::Encoded;
use crate::{Error, Result};
use std::ops::Range;

/// What a cut took away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cut {
    /// Tokens of the text.
    pub(super) text_tokens: usize,
    /// Labels that lost their marker or a part of their name, counted from the first one of the prompt.
    pub(super) labels: Vec<usize>,
}

/// Cuts the content so that it and the tokens around it fit; returns what was taken away.
pub(super) fn cut(
    encoded: &mut Encoded,
    rendered: &Rendered,
    truncation: Truncation,
    limit: usize,
    surrounding: usize,
    what: &str,
) -> Result<Cut> {
    let actual = encoded.ids.len() + surrounding;
    if actual <= limit {
        return Ok(Cut::default());
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
            Ok(Cut { text_tokens: excess, labels: Vec::new() })
        }
        Truncation::Right => {
            let Some(kept) = limit.checked_sub(surrounding) else {
                let message =
                    format!("{limit} found, the {surrounding} tokens around the content are always kept");
                return Err(Error::invalid("max_tokens", message));
            };
            encoded.ids.truncate(kept);
            let labels = labels_of(&encoded.offsets.split_off(kept.min(encoded.offsets.len())), rendered);
            Ok(Cut { text_tokens: text.end.saturating_sub(kept).min(text.len()), labels })
        }
    }
}

/// The name of what is left without the text.
pub(super) fn besides_the_text(what: &str) -> String {
    format!("{what} besides the text (labels, prompt and examples, which are never cut)")
}

/// The labels of which one of these tokens holds the marker or a piece of the name.
fn labels_of(tokens: &[(usize, usize)], rendered: &Rendered) -> Vec<usize> {
    let mut labels: Vec<usize> = Vec::new();
    for (part, range) in &rendered.parts {
        let (Part::LabelMarker(i) | Part::Label(i)) = part else { continue };
        let first = tokens.partition_point(|&(_, end)| end <= range.start);
        let touched = tokens.get(first).is_some_and(|&(start, _)| start < range.end);
        if touched && labels.last() != Some(i) {
            labels.push(*i);
        }
    }
    labels
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
    use crate::tokens::gliclass::render;

    #[test]
    fn a_label_is_cut_with_its_marker_or_with_a_piece_of_its_name() {
        let rendered = render(true, "text", &["ab".to_owned(), String::new(), "cd".to_owned()], "", &[]);
        // <<LABEL>>ab<<LABEL>><<LABEL>>cd<<SEP>>text: names at 9..11, 20..20 and 29..31.
        for (first, cut) in [(31, &[][..]), (30, &[2]), (20, &[2]), (11, &[1, 2]), (10, &[0, 1, 2])] {
            let end = rendered.prompt.len();
            let tokens: Vec<(usize, usize)> = (first..end).map(|at| (at, at + 1)).collect();
            assert_eq!(labels_of(&tokens, &rendered), cut, "{first}");
        }
    }

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
