//! Refuses labels that the model cannot tell apart, or cannot see.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Part, Rendered};
use crate::request::quote::quote;
use crate::request::{LabelSet, Strictness};
use crate::tokens::Encoded;
use crate::{Error, Result};

/// The labels of a request by their tokens, over all groups of labels.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    seen: HashMap<Vec<u32>, usize>,
}

impl Distinct {
    /// Checks the labels of one prompt against each other and those before.
    ///
    /// `first_label` is the index of the prompt's first label in the request.
    pub(super) fn check(
        &mut self,
        labels: &LabelSet,
        strictness: Strictness,
        rendered: &Rendered,
        encoded: &Encoded,
        first_label: usize,
    ) -> Result<()> {
        let mut tokens = encoded.ids.iter().zip(&encoded.offsets).peekable();
        for (part, range) in &rendered.parts {
            let mut ids = Vec::new();
            while let Some((id, _)) = tokens.next_if(|(_, (start, _))| *start < range.end) {
                ids.push(*id);
            }
            let Part::Label(i) = part else { continue };
            let i = first_label + i;
            let name = labels.names().get(i).map_or("", String::as_str);
            let field = || format!("labels[{i}]");
            if ids.is_empty() || name.chars().all(|c| c.is_whitespace() || c.is_control()) {
                if strictness.allow_empty_labels {
                    continue;
                }
                let message = format!(
                    "{} found, which says nothing to the model and is scored all the same (allow_empty_labels \
                     accepts it, as the reference does)",
                    quote(name)
                );
                return Err(Error::invalid(field(), message));
            }
            if strictness.allow_duplicate_labels {
                continue;
            }
            match self.seen.entry(ids) {
                Entry::Vacant(place) => {
                    place.insert(i);
                }
                Entry::Occupied(first) => {
                    let first = *first.get();
                    let message = format!(
                        "{} found, whose tokens are those of labels[{first}], {}; the model cannot tell them apart \
                         (allow_duplicate_labels scores each on its own)",
                        quote(name),
                        quote(labels.names().get(first).map_or("", String::as_str))
                    );
                    return Err(Error::invalid(field(), message));
                }
            }
        }
        Ok(())
    }
}
