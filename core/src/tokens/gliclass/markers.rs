//! Refuses markers where the reference would answer wrongly in silence.

use super::{EXAMPLE, LABEL, Part, Rendered, SEPARATOR};
use crate::models::gliclass::{ClassPooling, GliClassConfig};
use crate::tokens::Encoded;
use crate::{Error, Result};

/// Checks that each marker of the prompt is one token, and that no other marker token changes a label.
///
/// `first_label` is the index of the first label in the request.
pub(super) fn check(
    config: &GliClassConfig,
    rendered: &Rendered,
    encoded: &Encoded,
    first_label: usize,
    no_examples: bool,
) -> Result<()> {
    let parts = &rendered.parts;
    let separator = parts.iter().position(|(part, _)| *part == Part::Separator).unwrap_or(parts.len());
    let mut found = vec![false; parts.len()];
    for (&id, &(start, end)) in encoded.ids.iter().zip(&encoded.offsets) {
        let marker = match id {
            id if id == config.class_token_index => LABEL,
            id if id == config.text_token_index => SEPARATOR,
            id if id == config.example_token_index => EXAMPLE,
            _ => continue,
        };
        let at = parts.partition_point(|(_, range)| range.end <= start).min(parts.len() - 1);
        let (part, range) = &parts[at];
        if own_marker(*part) == Some(marker) && *range == (start..end) {
            found[at] = true;
            continue;
        }
        let harm = match (part, marker) {
            (Part::Label(_), LABEL) => {
                Some("it would start another label and shift the scores of those after it")
            }
            (Part::Label(_), SEPARATOR) => Some("it would end the label list"),
            (Part::Label(_), _) => Some("it would be taken for an example"),
            (_, EXAMPLE) if config.use_segment_embeddings && no_examples => {
                Some("it would change the segment of every token")
            }
            (_, EXAMPLE) => None,
            (_, LABEL) if at < separator => Some("it would start a label before the first one"),
            (_, SEPARATOR) if at < separator => Some("it would end the label list before it starts"),
            // Only here does the last label's average run on into the text.
            (_, LABEL)
                if !config.extract_text_features && config.class_token_pooling == ClassPooling::Average =>
            {
                Some("it would end the last label early")
            }
            _ => None,
        };
        if let Some(harm) = harm {
            let message = format!("{marker} found; {harm} (allow_markers accepts it, as the reference does)");
            return Err(Error::invalid(field(*part, first_label), message));
        }
    }
    let lost = parts.iter().zip(&found).find(|((part, _), found)| own_marker(*part).is_some() && !**found);
    match lost {
        None => Ok(()),
        Some(((part, _), _)) => {
            let marker = own_marker(*part).unwrap_or_default();
            let message = format!("its {marker} is not a token of its own in the tokenized prompt");
            Err(Error::invalid(field(*part, first_label), message))
        }
    }
}

fn own_marker(part: Part) -> Option<&'static str> {
    match part {
        Part::LabelMarker(_) => Some(LABEL),
        Part::Separator | Part::LastSeparator => Some(SEPARATOR),
        Part::ExampleMarker(_) => Some(EXAMPLE),
        Part::Label(_) | Part::Prompt | Part::Text | Part::Example(_) => None,
    }
}

fn field(part: Part, first_label: usize) -> String {
    match part {
        Part::LabelMarker(i) | Part::Label(i) => format!("labels[{}]", first_label + i),
        Part::Separator => "labels".into(),
        Part::Prompt => "prompt".into(),
        Part::Text => "text".into(),
        Part::ExampleMarker(i) | Part::Example(i) => format!("examples[{i}]"),
        Part::LastSeparator => "examples".into(),
    }
}
