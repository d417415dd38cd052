//! The vocabulary of `tokenizer.json`, read only as far as its pieces' lengths.

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// Longest piece, and longest added token; real vocabularies stay under 100.
///
/// The tokenizer crate walks and drops its trie of pieces by recursion, and looks for a piece of any length at each
/// character of a text.
pub(super) const MAX_PIECE_BYTES: usize = 512;

/// A vocabulary whose pieces are all short enough: `[[piece, score], …]` or `{piece: id, …}`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Vocabulary;

#[derive(Deserialize)]
struct Entry<'a>(#[serde(borrow)] Cow<'a, str>, IgnoredAny);

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Lengths)
    }
}

struct Lengths;

impl<'de> Visitor<'de> for Lengths {
    type Value = Vocabulary;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vocabulary")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pieces: A) -> Result<Vocabulary, A::Error> {
        while let Some(Entry(piece, _)) = pieces.next_element()? {
            check(&piece).map_err(A::Error::custom)?;
        }
        Ok(Vocabulary)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pieces: A) -> Result<Vocabulary, A::Error> {
        while let Some((piece, IgnoredAny)) = pieces.next_entry::<String, _>()? {
            check(&piece).map_err(A::Error::custom)?;
        }
        Ok(Vocabulary)
    }
}

/// What is wrong with a piece's length.
pub(super) fn check(piece: &str) -> Result<(), String> {
    match piece.len() {
        0..=MAX_PIECE_BYTES => Ok(()),
        bytes => Err(format!("a piece of {bytes} bytes found in the vocabulary, {MAX_PIECE_BYTES} allowed")),
    }
}
