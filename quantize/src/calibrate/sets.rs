//! What is used to choose and what is used to report must not be the same.

use std::collections::BTreeMap;

use dikast_core::checkpoint::Digest;
use dikast_core::{Error, Result};
use dikast_eval::{Example, Request};

/// What an example is about: letters and digits of its state or text in lower case, and its pictures.
fn about(example: &Example) -> Digest {
    let (text, images) = match &example.request {
        Request::Decide(request) => (request.state.to_pretty_text(), request.images.as_slice()),
        Request::Classify(request) => (request.text.clone(), &[][..]),
    };
    let mut key: Vec<u8> = text
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect::<String>()
        .into_bytes();
    for image in images {
        key.extend(Digest::of(image).to_string().into_bytes());
    }
    Digest::of(&key)
}

/// Refuses sets that share an example: one about the same state and pictures, whatever is asked and however it is
/// spelled.
///
/// # Errors
/// [`Error::InvalidRequest`] naming both examples.
pub(super) fn disjoint(sets: &[(&str, &[Example])]) -> Result<()> {
    let mut seen: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for (set, examples) in sets {
        for example in *examples {
            let key = about(example).to_string();
            match seen.get(&key) {
                Some((other, id)) if other != set => {
                    let message = format!(
                        "{:?} is about the same as {id:?} of the {other} set; allowed: sets without a common example",
                        example.id
                    );
                    return Err(Error::invalid(*set, message));
                }
                Some(_) => {}
                None => {
                    seen.insert(key, (set, &example.id));
                }
            }
        }
    }
    Ok(())
}

/// A calibration set without what is held back to choose by: the examples about every fifth thing.
pub(super) fn held_back(examples: &[Example]) -> (Vec<Example>, Vec<Example>) {
    /// One in so many.
    const SHARE: usize = 5;
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let (held, own) = examples.iter().cloned().partition(|example| {
        let next = places.len();
        let place = *places.entry(about(example).to_string()).or_insert(next);
        place % SHARE == SHARE - 1
    });
    (own, held)
}

/// The digest of what a set asks, for the record.
pub(super) fn digest(examples: &[Example]) -> Digest {
    let lines: String = examples.iter().map(|e| format!("{} {}\n", e.id, about(e))).collect();
    Digest::of(lines.as_bytes())
}
