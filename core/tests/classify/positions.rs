//! Class spans, text part and segments against the reference's formulas, mask by mask.

use super::fixture::{TINY, config, tiny};
use dikast_core::models::gliclass::{ClassPooling, GliClassConfig, Pooling};
use dikast_core::tokens::{Sequence, Span};
use proptest::prelude::*;

const CLASS: u32 = 2040;
const SEPARATOR: u32 = 2041;
const EXAMPLE: u32 = 2042;

/// Rows with a weight in the class vector, from running counts of markers.
fn rows_of_class(config: &GliClassConfig, ids: &[u32], attended: usize, class: usize) -> Vec<usize> {
    let count = |row: usize, id: u32| ids[..=row].iter().filter(|&&other| other == id).count();
    let in_class = |row: usize| count(row, CLASS) == class + 1;
    let is_marker = |row: usize| ids[row] == CLASS && in_class(row);
    let selected = |row: &usize| match (config.class_token_pooling, config.embed_class_token) {
        (ClassPooling::First, true) => is_marker(*row),
        (ClassPooling::First, false) => *row > 0 && is_marker(row - 1),
        (ClassPooling::Average, embed) => {
            let text = if config.extract_text_features { count(*row, SEPARATOR) } else { 0 };
            in_class(*row) && text == 0 && *row < attended && (embed || ids[*row] != CLASS)
        }
    };
    (0..ids.len()).filter(selected).collect()
}

fn rows(span: Span) -> Vec<usize> {
    (span.start as usize..span.end as usize).collect()
}

proptest! {
    #[test]
    fn spans_follow_the_formulas(
        ids in proptest::collection::vec(prop_oneof![Just(CLASS), Just(SEPARATOR), Just(EXAMPLE), Just(1), 3_u32..40], 1..30),
        padding in 0_usize..4,
        classes in 0_usize..7,
        (first, embed, extract, pass, segments) in any::<(bool, bool, bool, bool, bool)>(),
    ) {
        let config = GliClassConfig {
            class_token_pooling: if first { ClassPooling::First } else { ClassPooling::Average },
            embed_class_token: embed,
            extract_text_features: extract,
            pooling: if pass { Pooling::Pass } else { Pooling::Avg },
            use_segment_embeddings: segments,
            ..TINY.clone()
        };
        let attended = ids.len();
        let padded = [&ids[..], &vec![0; padding]].concat();
        let sequence = Sequence::locate(&config, padded.clone(), attended, classes);
        for class in 0..classes {
            prop_assert_eq!(rows(sequence.classes[class]), rows_of_class(&config, &padded, attended, class));
        }
        let separator = padded.iter().position(|&id| id == SEPARATOR);
        let start = if extract { separator.unwrap_or(0) } else { 0 };
        let end = if pass { attended } else { padded.len() };
        prop_assert_eq!(rows(sequence.text), (start..end).collect::<Vec<_>>());
        prop_assert_eq!(sequence.text_padding as usize, if pass { 0 } else { start });
        if !segments {
            prop_assert!(sequence.segments.is_empty());
        } else if !padded.contains(&EXAMPLE) {
            let expected = |row| u32::from(separator.is_some_and(|at| row >= at));
            prop_assert_eq!(&sequence.segments, &(0..padded.len()).map(expected).collect::<Vec<_>>());
        } else if padded[0] != EXAMPLE {
            prop_assert!(sequence.segments.iter().all(|&s| s == 2));
        }
        prop_assert_eq!(sequence.ids, padded);
    }
}

#[test]
fn segments_of_a_prompt() {
    let config = config(&tiny("variants/mlp-segments-avgclass/config.json"));
    let sequence = Sequence::locate(&config, vec![CLASS, 5, SEPARATOR, 7, 1], 5, 1);
    assert_eq!(sequence.segments, [0, 0, 1, 1, 1]);
    // The average runs to the end, as the text part is the whole sequence.
    assert_eq!(sequence.classes, [Span { start: 0, end: 5 }]);
    let sequence = Sequence::locate(&config, vec![EXAMPLE, EXAMPLE, SEPARATOR, 1], 4, 1);
    assert_eq!(sequence.segments, [0, 0, 2, 2]);
}
