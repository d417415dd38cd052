//! Token ids → the rows that the heads read.

use super::{Sequence, Span};
use crate::models::gliclass::{ClassPooling, GliClassConfig, Pooling};

impl Sequence {
    /// Finds classes, text and segments of a tokenized prompt, as the reference model does.
    ///
    /// `attended` is the number of leading ids with attention mask 1 (all of them, unless a padded batch of the
    /// reference is replayed); `classes` is the number of class slots. The rules, with all their consequences for
    /// prompts that lost or gained a marker:
    ///
    /// - A class that has no marker gets an empty span. Pooling `first` reads the marker's row, or the row after it
    ///   when `embed_class_token` is false; `average` runs to the next marker, and with `extract_text_features` not
    ///   beyond the first separator.
    /// - With `extract_text_features` the text part starts at the first separator (at row 0 if there is none). The
    ///   reference shifts it to row 0 and fills up with zero rows, which every pooling but `pass` sees;
    ///   `text_padding` counts them. `pass` masks padding, so its text part ends with the attended rows.
    /// - Segments are 0 before the first separator and 1 from it on; any example marker makes them all 2 (from the
    ///   first id that is no example marker on, strictly).
    pub fn locate(config: &GliClassConfig, ids: Vec<u32>, attended: usize, classes: usize) -> Self {
        let attended = attended.min(ids.len());
        let separator = ids.iter().position(|&id| id == config.text_token_index);
        let text_start = separator.filter(|_| config.extract_text_features).unwrap_or(0);
        let (text_end, text_padding) = match config.pooling {
            Pooling::Pass => (attended.max(text_start), 0),
            _ => (ids.len(), text_start),
        };
        Self {
            attended: attended as u32,
            segments: segments(config, &ids, separator),
            classes: class_spans(config, &ids, attended, separator, classes),
            text: span(text_start, text_end),
            text_padding: text_padding as u32,
            dropped_text_tokens: 0,
            ids,
        }
    }
}

/// Token counts are far below 2^32: the rendered prompt is limited in bytes.
fn span(start: usize, end: usize) -> Span {
    if start < end { Span { start: start as u32, end: end as u32 } } else { Span::default() }
}

fn class_spans(
    config: &GliClassConfig,
    ids: &[u32],
    attended: usize,
    separator: Option<usize>,
    classes: usize,
) -> Vec<Span> {
    let markers: Vec<usize> =
        (0..ids.len()).filter(|&row| ids[row] == config.class_token_index).take(classes + 1).collect();
    let labels_end = separator.filter(|_| config.extract_text_features).unwrap_or(attended).min(attended);
    (0..classes)
        .map(|class| {
            let Some(&marker) = markers.get(class) else { return Span::default() };
            let start = if config.embed_class_token { marker } else { marker + 1 };
            match config.class_token_pooling {
                ClassPooling::First => span(start, (start + 1).min(ids.len())),
                ClassPooling::Average => {
                    let next = markers.get(class + 1).copied().unwrap_or(labels_end);
                    span(start, next.min(labels_end))
                }
            }
        })
        .collect()
}

fn segments(config: &GliClassConfig, ids: &[u32], separator: Option<usize>) -> Vec<u32> {
    if !config.use_segment_embeddings {
        return Vec::new();
    }
    let is_example = |&id: &u32| id == config.example_token_index;
    let mut segments: Vec<u32> =
        (0..ids.len()).map(|row| u32::from(separator.is_some_and(|separator| row >= separator))).collect();
    if ids.iter().any(is_example) {
        let start = ids.iter().position(|id| !is_example(id)).unwrap_or(0);
        segments[start..].fill(2);
    }
    segments
}
