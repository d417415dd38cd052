//! Checks of a request that need no model.

use super::limits::{
    MAX_EXAMPLE_BYTES, MAX_EXAMPLE_LABELS, MAX_EXAMPLES, MAX_LABELS, MAX_PROMPT_BYTES, MAX_SEQUENCES,
    MAX_TEXT_BYTES, MAX_TOKENS,
};
use super::quote::quote;
use super::{ClassifyRequest, labels};
use crate::{Error, Result};
use std::collections::HashMap;

impl ClassifyRequest {
    /// Checks everything that does not depend on the model.
    ///
    /// An empty text is legal, as in the reference; labels without tokens are refused once they are tokenized; an empty label list, a repeated label
    /// (unless allowed) and a threshold outside `0..=1` are not.
    pub fn validate(&self) -> Result<()> {
        at_most("bytes of text", self.text.len(), MAX_TEXT_BYTES)?;
        self.validate_labels()?;
        if !(0.0..=1.0).contains(&self.threshold) {
            let message = format!("{} found, a number in 0..=1 is allowed", self.threshold);
            return Err(Error::invalid("threshold", message));
        }
        at_most("bytes of prompt", self.prompt.as_ref().map_or(0, String::len), MAX_PROMPT_BYTES)?;
        at_most("examples", self.examples.len(), MAX_EXAMPLES)?;
        for (i, example) in self.examples.iter().enumerate() {
            at_most(&format!("bytes of examples[{i}].text"), example.text.len(), MAX_EXAMPLE_BYTES)?;
            at_most(&format!("examples[{i}].labels"), example.labels.len(), MAX_EXAMPLE_LABELS)?;
            example.labels.iter().try_for_each(|label| labels::check_length(label))?;
        }
        match self.max_tokens {
            Some(0) => return Err(Error::invalid("max_tokens", "0 found, at least 1 is needed")),
            Some(tokens) => at_most("max_tokens", tokens, MAX_TOKENS)?,
            None => {}
        }
        self.validate_chunking()
    }

    fn validate_labels(&self) -> Result<()> {
        let names = self.labels.names();
        if names.is_empty() {
            return Err(Error::invalid("labels", "none found, at least one is needed"));
        }
        at_most("labels", names.len(), MAX_LABELS)?;
        let mut seen = HashMap::with_capacity(names.len());
        for (i, name) in names.iter().enumerate() {
            labels::check_length(name)?;
            if let Some(first) = seen.insert(name.as_str(), i)
                && !self.strictness.allow_duplicate_labels
            {
                let message = format!(
                    "{} found, which labels[{first}] already is; each label may stand once, because the position \
                     changes the score (allow_duplicate_labels scores each occurrence on its own)",
                    quote(name)
                );
                return Err(Error::invalid(format!("labels[{i}]"), message));
            }
        }
        Ok(())
    }

    fn validate_chunking(&self) -> Result<()> {
        let Some(chunking) = self.chunking else { return Ok(()) };
        if chunking.labels == 0 {
            return Err(Error::invalid("chunking.labels", "0 found, at least 1 is needed"));
        }
        let Some(windows) = chunking.window_count(self.text.chars().count()) else {
            let message = format!(
                "{} found, fewer than text_chars ({}) are allowed",
                chunking.overlap_chars, chunking.text_chars
            );
            return Err(Error::invalid("chunking.overlap_chars", message));
        };
        let groups = self.labels.len().div_ceil(chunking.labels);
        at_most(
            "forward passes (windows of text times groups of labels)",
            windows.saturating_mul(groups),
            MAX_SEQUENCES,
        )
    }
}

/// [`Error::TooLarge`] if `actual` is over `limit`.
pub(crate) fn at_most(what: &str, actual: usize, limit: usize) -> Result<()> {
    if actual > limit {
        return Err(Error::TooLarge { what: what.to_owned(), limit: limit as u64, actual: actual as u64 });
    }
    Ok(())
}
