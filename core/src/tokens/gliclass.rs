//! GLiClass prompts: rendering, tokenization, class positions, truncation.
//!
//! The prompt is one string, tokenized in one call:
//!
//! ```text
//! <<LABEL>>a<<LABEL>>b<<SEP>>{prompt}{text}<<EXAMPLE>>{text} \nLabels:\n {labels}<<SEP>>   labels first
//! {text}<<LABEL>>a<<LABEL>>b<<SEP>>{prompt}<<EXAMPLE>>…<<SEP>>                             text first
//! ```
//!
//! # Special tokens inside labels and texts
//!
//! Added tokens are matched anywhere, so a caller's strings can contain them. The three markers shift or end the
//! label list and are refused where they would (see [`crate::request::Strictness::allow_markers`]). Others such as
//! `</s>`, `<pad>` and `<unk>` become their ids, as in the reference, and are accepted: no position depends on them,
//! attention sees them like any token, and `</s>` is an ordinary closing tag in a text with markup.

mod cut;
mod distinct;
mod long;
mod markers;
mod render;

pub use render::{Part, Rendered, render};

use super::{Sequence, Tokenizer};
use crate::models::gliclass::{GliClassConfig, Scorer};
use crate::request::limits::MAX_RENDERED_BYTES;
use crate::request::validate::at_most;
use crate::request::{ClassifyRequest, Example, Truncation};
use crate::{Error, Result};
use std::ops::Range;

/// Stands before each label.
pub const LABEL: &str = "<<LABEL>>";
/// Stands after the labels, and after the examples.
pub const SEPARATOR: &str = "<<SEP>>";
/// Stands before each example.
pub const EXAMPLE: &str = "<<EXAMPLE>>";

/// A request as sequences, and how their logits fit together again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// One forward pass each: all groups of the first window of text, then of the second, ….
    pub sequences: Vec<Sequence>,
    /// Windows of text.
    pub windows: usize,
    /// Labels of each group, as ranges of the request's labels.
    pub groups: Vec<Range<usize>>,
    /// Tokens of all sequences.
    pub tokens: u64,
    /// Text tokens dropped, over all sequences.
    pub dropped_text_tokens: u64,
    /// Indices of the labels that [`crate::request::Truncation::Right`] cut off or cut short in some sequence, in
    /// order. Without its marker a label has the score of the zero vector, which means nothing; without its last
    /// words it has the score of another label.
    pub cut_labels: Vec<usize>,
}

/// Checks that a tokenizer belongs to a model: the three markers have the ids of the configuration and are matched in
/// raw text exactly as they are, and every id has an embedding row.
pub fn check_tokenizer(config: &GliClassConfig, tokenizer: &Tokenizer) -> Result<()> {
    let wrong = |message: String| Err(Error::checkpoint(super::tokenizer_file::FILE, message));
    for (marker, key, id) in [
        (LABEL, "class_token_index", config.class_token_index),
        (SEPARATOR, "text_token_index", config.text_token_index),
        (EXAMPLE, "example_token_index", config.example_token_index),
    ] {
        let Some(token) = tokenizer.added_tokens().iter().find(|token| token.content == marker) else {
            return wrong(format!("{marker} is not among the added tokens; {key} of config.json is {id}"));
        };
        if token.id != id {
            return wrong(format!("{marker} has id {}, {key} of config.json is {id}", token.id));
        }
        if token.normalized || token.lstrip || token.rstrip || token.single_word {
            return wrong(format!("{marker} must not be normalized, lstrip, rstrip or single_word"));
        }
    }
    let facts = tokenizer.facts();
    for (marker, id) in [
        (LABEL, config.class_token_index),
        (SEPARATOR, config.text_token_index),
        (EXAMPLE, config.example_token_index),
    ] {
        if facts.prefix.contains(&id) || facts.suffix.contains(&id) {
            return wrong(format!(
                "post_processor adds {marker} to every prompt; only the prompt itself may have markers"
            ));
        }
    }
    let (largest, rows) = (facts.largest_id, config.encoder.vocab_size);
    if largest as usize >= rows {
        return wrong(format!("its largest id is {largest}, but the model has {rows} embedding rows"));
    }
    Ok(())
}

/// Renders, tokenizes, checks and truncates a request.
///
/// `default_max_tokens` is the engine's limit; a request may only lower it.
pub fn prepare(
    config: &GliClassConfig,
    tokenizer: &Tokenizer,
    request: &ClassifyRequest,
    default_max_tokens: usize,
) -> Result<Prepared> {
    request.validate()?;
    let limit = match request.max_tokens {
        Some(tokens) => {
            at_most("max_tokens", tokens, default_max_tokens)?;
            tokens
        }
        None => default_max_tokens,
    };
    let all = 0..request.labels.len();
    let (windows, groups) = match request.chunking {
        Some(chunking) => (chunking.windows(&request.text), chunking.groups(request.labels.len())),
        None => (vec![request.text.as_str()], vec![all]),
    };
    if let Some(most) = config.max_labels {
        let largest = groups.iter().map(Range::len).max().unwrap_or(0);
        at_most("labels of one forward pass of this model", largest, most)?;
    }
    check_rendered_size(request, &windows, groups.len())?;

    let mut prepared = Prepared {
        sequences: Vec::with_capacity(windows.len() * groups.len()),
        windows: windows.len(),
        groups,
        tokens: 0,
        dropped_text_tokens: 0,
        cut_labels: Vec::new(),
    };
    let job = Job { config, tokenizer, request, limit };
    let mut distinct = Some(distinct::Distinct::default());
    for (window, text) in windows.into_iter().enumerate() {
        for group in prepared.groups.clone() {
            let what = match prepared.windows {
                1 => "input tokens".to_owned(),
                _ => format!("input tokens of window {window}"),
            };
            let (sequence, cut_labels) = job.sequence(text, group, &what, distinct.as_mut())?;
            prepared.tokens += sequence.ids.len() as u64;
            prepared.dropped_text_tokens += u64::from(sequence.dropped_text_tokens);
            prepared.cut_labels.extend(cut_labels);
            prepared.sequences.push(sequence);
        }
        // Every window has the same labels.
        distinct = None;
    }
    // Each window loses labels of its own.
    prepared.cut_labels.sort_unstable();
    prepared.cut_labels.dedup();
    Ok(prepared)
}

/// What all sequences of a request have in common.
struct Job<'a> {
    config: &'a GliClassConfig,
    tokenizer: &'a Tokenizer,
    request: &'a ClassifyRequest,
    limit: usize,
}

impl Job<'_> {
    /// The sequence of one window of text and one group of labels, and which labels it lost.
    fn sequence(
        &self,
        text: &str,
        group: Range<usize>,
        what: &str,
        distinct: Option<&mut distinct::Distinct>,
    ) -> Result<(Sequence, Vec<usize>)> {
        let &Self { config, tokenizer, request, limit } = self;
        let labels = &request.labels.names()[group.clone()];
        let (text, dropped_unread) = match request.truncation {
            Truncation::Refuse => (text, 0),
            Truncation::Text | Truncation::Right => long::shorten(tokenizer, text, limit)?,
        };
        let rendered = render(
            config.prompt_first,
            text,
            labels,
            request.prompt.as_deref().unwrap_or_default(),
            &request.examples,
        );
        match request.truncation {
            Truncation::Refuse => long::refuse(tokenizer, &rendered.prompt, limit, what)?,
            Truncation::Text => {
                let (before, after) = rendered.around_text();
                for part in [before, after] {
                    long::refuse(tokenizer, part, limit, &cut::besides_the_text(what))?;
                }
            }
            Truncation::Right => {}
        }
        let mut encoded = tokenizer.encode(&rendered.prompt)?;
        if !request.strictness.allow_markers {
            markers::check(config, &rendered, &encoded, group.start, request.examples.is_empty())?;
        }
        if let Some(distinct) = distinct {
            distinct.check(&request.labels, request.strictness, &rendered, &encoded, group.start)?;
        }
        let cut =
            cut::cut(&mut encoded, &rendered, request.truncation, limit, tokenizer.surrounding(), what)?;

        let ids = tokenizer.surround(&encoded.ids);
        let attended = ids.len();
        let mut sequence = Sequence::locate(config, ids, attended, class_slots(config, labels.len()));
        sequence.dropped_text_tokens =
            u32::try_from(cut.text_tokens.saturating_add(dropped_unread)).unwrap_or(u32::MAX);
        Ok((sequence, cut.labels.into_iter().map(|i| group.start + i).collect()))
    }
}

/// Class slots of a sequence with this many labels: more where the softmax of the scorer runs over all slots that the
/// model fixes, used or not.
pub fn class_slots(config: &GliClassConfig, labels: usize) -> usize {
    config.max_labels.filter(|_| config.scorer == Scorer::Hopfield).unwrap_or(labels)
}

/// Prompt and examples are repeated in every forward pass, so their product is limited, not just each of them.
fn check_rendered_size(request: &ClassifyRequest, windows: &[&str], groups: usize) -> Result<()> {
    let labels: usize = request.labels.names().iter().map(|label| LABEL.len() + label.len()).sum();
    let text: usize = windows.iter().map(|window| window.len()).sum();
    let example =
        |e: &Example| e.text.len() + e.labels.iter().map(|label| label.len() + 2).sum::<usize>() + 32;
    let fixed = request.prompt.as_ref().map_or(0, String::len)
        + request.examples.iter().map(example).sum::<usize>()
        + 2 * SEPARATOR.len();
    let total = labels
        .saturating_mul(windows.len())
        .saturating_add(text.saturating_mul(groups))
        .saturating_add(fixed.saturating_mul(windows.len()).saturating_mul(groups));
    at_most("bytes of all rendered prompts", total, MAX_RENDERED_BYTES)
}
