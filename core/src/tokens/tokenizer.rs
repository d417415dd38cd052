//! `tokenizer.json` through the `tokenizers` crate.

use super::tokenizer_file::{AddedToken, Outline, Template, wrong};
use crate::{Error, Result};
use std::sync::Arc;
use tokenizers::{
    Model as _, NormalizedString, Normalizer as _, OffsetType, PreTokenizedString, PreTokenizer as _,
};

/// A tokenizer that never truncates or pads by itself.
///
/// The file's `truncation`, `padding`, `post_processor` and `decoder` are not used: a saved tokenizer carries the
/// settings of its last use, and the tokens around the content are added by this crate.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    template: Template,
    facts: Arc<TokenizerFacts>,
}

/// What `inspect` shows of a tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerFacts {
    /// Model type, `Unigram` or `BPE`.
    pub model: String,
    /// Unknown characters become their bytes.
    pub byte_fallback: bool,
    /// Tokens, added ones included.
    pub vocabulary: usize,
    /// The largest token id.
    pub largest_id: u32,
    /// Types of the normalizers, in order.
    pub normalizers: Vec<String>,
    /// Types of the pre-tokenizers, in order.
    pub pre_tokenizers: Vec<String>,
    /// Added tokens by id.
    pub added_tokens: Vec<AddedToken>,
    /// Ids before the content.
    pub prefix: Vec<u32>,
    /// Ids after the content, usually the end token.
    pub suffix: Vec<u32>,
    /// Sections that the file sets and that are ignored: `truncation`, `padding`.
    pub ignored: Vec<String>,
}

/// Tokens of a text, without the tokens around the content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Byte range of each token in the text; may be empty for a token that stands for no character.
    pub offsets: Vec<(usize, usize)>,
}

impl Tokenizer {
    /// Reads `tokenizer.json`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let outline = Outline::read(bytes)?;
        let template = outline.template()?;
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| wrong(error.to_string()))?;
        inner.with_truncation(None).map_err(|error| wrong(error.to_string()))?;
        inner.with_padding(None);
        inner.with_post_processor(None::<tokenizers::PostProcessorWrapper>);
        inner.with_decoder(None::<tokenizers::DecoderWrapper>);

        // The crate gives an added token the next free id and only logs that the file said otherwise.
        for token in &outline.added_tokens {
            let found = inner.token_to_id(&token.content);
            if found != Some(token.id) {
                let message =
                    format!("added token {:?} has id {}, {found:?} is its place", token.content, token.id);
                return Err(wrong(message));
            }
        }
        for id in template.prefix.iter().chain(&template.suffix) {
            if inner.id_to_token(*id).is_none() {
                return Err(wrong(format!("post_processor adds id {id}, which is no token")));
            }
        }
        let facts = Arc::new(facts(&inner, outline, &template)?);
        Ok(Self { inner: Arc::new(inner), template, facts })
    }

    /// Tokens of a text, without the tokens around the content.
    pub fn encode(&self, text: &str) -> Result<Encoded> {
        // The file was checked, so what fails here (a character without an unknown token) is the file's fault.
        let encoding = self.inner.encode(text, false).map_err(|error| wrong(error.to_string()))?;
        let (ids, offsets) = (encoding.get_ids(), encoding.get_offsets());
        if ids.len() != offsets.len() {
            return Err(Error::Internal(format!("{} tokens with {} offsets", ids.len(), offsets.len())));
        }
        Ok(Encoded { ids: ids.to_vec(), offsets: offsets.to_vec() })
    }

    /// Token ids of a text, without the tokens around the content.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| wrong(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Token ids of a text in which no added token is recognised: what looks like one is text like any other.
    ///
    /// The same ids as [`Tokenizer::ids`] gives for a text without added tokens.
    pub fn plain_ids(&self, text: &str) -> Result<Vec<u32>> {
        let ids = || -> tokenizers::Result<Vec<u32>> {
            let mut text = NormalizedString::from(text);
            if let Some(normalizer) = self.inner.get_normalizer() {
                normalizer.normalize(&mut text)?;
            }
            let mut pieces = PreTokenizedString::from(text);
            if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut pieces)?;
            }
            self.inner.get_model().tokenize_in_pretokenized(&mut pieces, None)?;
            Ok(pieces.into_encoding(None, 0, OffsetType::None)?.get_ids().to_vec())
        };
        ids().map_err(|error| wrong(error.to_string()))
    }

    /// The content with the tokens that stand around it.
    pub fn surround(&self, content: &[u32]) -> Vec<u32> {
        [&self.template.prefix, content, &self.template.suffix].concat()
    }

    /// How many tokens [`Tokenizer::surround`] adds.
    pub fn surrounding(&self) -> usize {
        self.template.prefix.len() + self.template.suffix.len()
    }

    /// How many tokens stand before the content.
    pub fn prefix_len(&self) -> usize {
        self.template.prefix.len()
    }

    /// Tokens, added ones included.
    pub fn vocab_size(&self) -> usize {
        self.facts.vocabulary
    }

    /// The id of a token.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token of an id.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Tokens that are matched in the raw text, by id.
    pub fn added_tokens(&self) -> &[AddedToken] {
        &self.facts.added_tokens
    }

    /// What `inspect` shows.
    pub fn facts(&self) -> &TokenizerFacts {
        &self.facts
    }
}

// The inner tokenizer would print its whole vocabulary.
impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("facts", &self.facts).finish_non_exhaustive()
    }
}

fn facts(inner: &tokenizers::Tokenizer, outline: Outline, template: &Template) -> Result<TokenizerFacts> {
    let (normalizers, pre_tokenizers) = outline.component_names()?;
    let base = inner.get_vocab_size(false);
    // Ids of a Unigram vocabulary are its positions; elsewhere the file says them.
    let largest = match outline.model.kind.as_str() {
        "Unigram" => u32::try_from(base).ok().and_then(|size| size.checked_sub(1)),
        _ => inner.get_vocab(false).into_values().max(),
    };
    let mut added_tokens = outline.added_tokens;
    added_tokens.sort_by_key(|token| token.id);
    let largest = added_tokens.last().map(|token| token.id).max(largest);
    let set = [("truncation", outline.truncation.is_some()), ("padding", outline.padding.is_some())];
    Ok(TokenizerFacts {
        model: outline.model.kind,
        byte_fallback: outline.model.byte_fallback,
        vocabulary: inner.get_vocab_size(true),
        largest_id: largest.ok_or_else(|| wrong("the vocabulary is empty"))?,
        normalizers,
        pre_tokenizers,
        added_tokens,
        prefix: template.prefix.clone(),
        suffix: template.suffix.clone(),
        ignored: set.into_iter().filter(|(_, set)| *set).map(|(name, _)| name.to_owned()).collect(),
    })
}
