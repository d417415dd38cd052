//! What `tokenizer.json` must look like before the tokenizer crate may read it.
//!
//! The crate trusts its input: damaged character maps, templates that name absent tokens and backtracking regular
//! expressions stop the program, and it renumbers added tokens with a mere log line. Only components known to be
//! harmless pass, so that a hostile file is an error of the checkpoint, also where panics cannot be caught.

use super::charsmap;
use super::vocabulary::{self, Vocabulary};
use crate::{Error, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// The name under which errors about the file are reported.
pub(super) const FILE: &str = "tokenizer.json";

/// Largest file read; the largest real ones have about 20 MB.
const MAX_BYTES: usize = 64 << 20;
/// Components of one `Sequence`, special tokens of one template, levels of nesting.
const MAX_LIST: usize = 16;
/// Longest replacement of a normalizer; bounds how far a chain of them can grow a text.
const MAX_REPLACEMENT_BYTES: usize = 4;
/// Replacing normalizers of one file.
const MAX_REPLACEMENTS: usize = 4;
/// How many times longer all of them together may make a text; a blank that becomes `▁` is 3 times as long.
const MAX_GROWTH: usize = 8;

const MODELS: &[&str] = &["Unigram", "BPE"];
const NORMALIZERS: &[&str] = &[
    "Sequence",
    "Precompiled",
    "Replace",
    "Prepend",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Nmt",
    "Lowercase",
    "Strip",
    "StripAccents",
    "BertNormalizer",
    "ByteLevel",
];
const PRE_TOKENIZERS: &[&str] = &[
    "Sequence",
    "Metaspace",
    "WhitespaceSplit",
    "Whitespace",
    "ByteLevel",
    "Split",
    "Digits",
    "Punctuation",
    "BertPreTokenizer",
    "UnicodeScripts",
];
/// Regular expressions known to be harmless: no unbounded backtracking, the same matches in both engines.
const EXPRESSIONS: &[&str] = &[
    " {2,}",
    // Qwen2 and the CLEF releases; then Qwen3.5 and later, where marks belong to letters.
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// The parts of the file that are checked here; the vocabulary is left to the tokenizer crate.
#[derive(Debug, Deserialize)]
pub(super) struct Outline {
    pub(super) truncation: Option<IgnoredAny>,
    pub(super) padding: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
    pub(super) normalizer: Option<Value>,
    pub(super) pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    pub(super) model: Model,
}

/// A token that is matched in the raw text, before the model sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AddedToken {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub content: String,
    /// Not part of the language, for example an end token.
    pub special: bool,
    /// Matched in normalized text instead of raw text.
    pub normalized: bool,
    /// Takes the white space before it along.
    pub lstrip: bool,
    /// Takes the white space after it along.
    pub rstrip: bool,
    /// Matched as a whole word only.
    pub single_word: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Model {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) byte_fallback: bool,
    /// Its pieces were checked while it was read.
    #[serde(rename = "vocab", default)]
    _vocabulary: Vocabulary,
    dropout: Option<f64>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
}

/// Tokens around the content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) prefix: Vec<u32>,
    pub(super) suffix: Vec<u32>,
}

impl Outline {
    /// Reads and checks the file's outline.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MAX_BYTES {
            return Err(wrong(format!("{} bytes found, {MAX_BYTES} allowed", bytes.len())));
        }
        let outline: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        outline.check_model()?;
        for token in &outline.added_tokens {
            vocabulary::check(&token.content).map_err(wrong)?;
        }
        let mut replacements = Replacements { count: 0, growth: 1, maps: 0 };
        for normalizer in components(&outline.normalizer, "normalizer", "normalizers", NORMALIZERS)? {
            check_normalizer(normalizer, &mut replacements)?;
        }
        for pre_tokenizer in
            components(&outline.pre_tokenizer, "pre_tokenizer", "pretokenizers", PRE_TOKENIZERS)?
        {
            check_pattern(pre_tokenizer)?;
        }
        Ok(outline)
    }

    /// Types of the normalizers and of the pre-tokenizers, in order.
    pub(super) fn component_names(&self) -> Result<(Vec<String>, Vec<String>)> {
        let names = |list: Vec<&Value>| list.into_iter().map(|c| kind(c).to_owned()).collect();
        Ok((
            names(components(&self.normalizer, "normalizer", "normalizers", NORMALIZERS)?),
            names(components(&self.pre_tokenizer, "pre_tokenizer", "pretokenizers", PRE_TOKENIZERS)?),
        ))
    }

    fn check_model(&self) -> Result<()> {
        let model = &self.model;
        if !MODELS.contains(&model.kind.as_str()) {
            return Err(wrong(format!("model type {:?} found, {} allowed", model.kind, MODELS.join(", "))));
        }
        if model.dropout.is_some_and(|dropout| dropout != 0.0) {
            return Err(wrong("model.dropout is set; tokens would be random"));
        }
        let affixes = [&model.continuing_subword_prefix, &model.end_of_word_suffix];
        if affixes.into_iter().flatten().any(|affix| !affix.is_empty()) {
            return Err(wrong("model.continuing_subword_prefix and end_of_word_suffix are not supported"));
        }
        Ok(())
    }

    /// The tokens that the post-processor puts around the content of a single sequence.
    ///
    /// They are added by this crate and not by the tokenizer, so that truncation can keep them.
    pub(super) fn template(&self) -> Result<Template> {
        let mut template = Template::default();
        for processor in components(
            &self.post_processor,
            "post_processor",
            "processors",
            &["Sequence", "TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel"],
        )? {
            let Template { prefix, suffix } = match kind(processor) {
                "TemplateProcessing" => single_template(processor)?,
                "BertProcessing" | "RobertaProcessing" => Template {
                    prefix: vec![pair_id(processor, "cls")?],
                    suffix: vec![pair_id(processor, "sep")?],
                },
                _ => Template::default(),
            };
            template.prefix.splice(0..0, prefix);
            template.suffix.extend(suffix);
        }
        if template.prefix.len() + template.suffix.len() > MAX_LIST {
            return Err(wrong(format!("post_processor adds more than {MAX_LIST} tokens")));
        }
        Ok(template)
    }
}

pub(super) fn wrong(message: impl Into<String>) -> Error {
    Error::checkpoint(FILE, message)
}

fn kind(component: &Value) -> &str {
    component.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The components of a section, a `Sequence` replaced by what it lists; their types are checked.
fn components<'v>(
    section: &'v Option<Value>,
    name: &str,
    list: &str,
    allowed: &[&str],
) -> Result<Vec<&'v Value>> {
    let mut found = Vec::new();
    let mut open: Vec<(&Value, usize)> = section.iter().map(|component| (component, 0)).collect();
    while let Some((component, depth)) = open.pop() {
        let kind = kind(component);
        if !allowed.contains(&kind) {
            return Err(wrong(format!("{name} type {kind:?} found, {} allowed", allowed.join(", "))));
        }
        if kind != "Sequence" {
            found.push(component);
            continue;
        }
        let Some(items) = component.get(list).and_then(Value::as_array) else {
            return Err(wrong(format!("{name} of type Sequence has no list {list}")));
        };
        if found.len() + open.len() + items.len() > MAX_LIST || depth == MAX_LIST {
            return Err(wrong(format!("{name} has more than {MAX_LIST} components")));
        }
        open.extend(items.iter().rev().map(|item| (item, depth + 1)));
    }
    Ok(found)
}

/// What the normalizers of a file do to the length of a text.
struct Replacements {
    count: usize,
    growth: usize,
    maps: usize,
}

fn check_normalizer(normalizer: &Value, replacements: &mut Replacements) -> Result<()> {
    let replacement = match kind(normalizer) {
        "Precompiled" => {
            replacements.maps += 1;
            if replacements.maps > 1 {
                return Err(wrong("normalizer has more than one Precompiled"));
            }
            let map = normalizer.get("precompiled_charsmap").and_then(Value::as_str);
            let map = map.ok_or_else(|| wrong("normalizer.precompiled_charsmap is missing"))?;
            return charsmap::check(map).map_err(|e| wrong(format!("normalizer.precompiled_charsmap: {e}")));
        }
        "Replace" => "content",
        "Prepend" => "prepend",
        _ => return Ok(()),
    };
    check_pattern(normalizer)?;
    replacements.count += 1;
    let text = normalizer.get(replacement).and_then(Value::as_str);
    if replacements.count > MAX_REPLACEMENTS || text.is_none_or(|text| text.len() > MAX_REPLACEMENT_BYTES) {
        return Err(wrong(format!(
            "normalizer has more than {MAX_REPLACEMENTS} replacements or one over {MAX_REPLACEMENT_BYTES} bytes"
        )));
    }
    if let (Some(text), Some(pattern)) = (text, normalizer.get("pattern")) {
        // Every known expression matches at least one byte.
        let replaced = pattern.get("String").and_then(Value::as_str).map_or(1, str::len).max(1);
        replacements.growth = replacements.growth.saturating_mul(text.len().div_ceil(replaced).max(1));
        if replacements.growth > MAX_GROWTH {
            return Err(wrong(format!(
                "replacements of normalizer make a text more than {MAX_GROWTH} times longer"
            )));
        }
    }
    Ok(())
}

fn check_pattern(component: &Value) -> Result<()> {
    match component.get("pattern") {
        None => Ok(()),
        Some(pattern) => match (pattern.get("Regex"), pattern.get("String")) {
            (Some(Value::String(regex)), None) if EXPRESSIONS.contains(&regex.as_str()) => Ok(()),
            (None, Some(Value::String(text))) if !text.is_empty() => Ok(()),
            _ => Err(wrong(format!("{}.pattern is not one that this program knows", kind(component)))),
        },
    }
}

fn single_template(processor: &Value) -> Result<Template> {
    let pieces = processor.get("single").and_then(Value::as_array);
    let pieces = pieces.ok_or_else(|| wrong("post_processor.single is missing"))?;
    let mut template = Template::default();
    let mut content = false;
    for piece in pieces {
        if let Some(token) = piece.get("SpecialToken") {
            let name = token.get("id").and_then(Value::as_str).unwrap_or_default();
            let ids = processor.get("special_tokens").and_then(|tokens| tokens.get(name)?.get("ids"));
            let ids: Vec<u32> = ids
                .and_then(|ids| ids.as_array()?.iter().map(id).collect())
                .ok_or_else(|| wrong(format!("post_processor.special_tokens has no ids of {name:?}")))?;
            if content { &mut template.suffix } else { &mut template.prefix }.extend(ids);
        } else if piece.get("Sequence").and_then(|s| s.get("id")).is_some_and(|id| id == "A") && !content {
            content = true;
        } else {
            return Err(wrong(
                "post_processor.single has a piece that is neither a token nor the one sequence A",
            ));
        }
    }
    if !content {
        return Err(wrong("post_processor.single lacks the sequence A"));
    }
    Ok(template)
}

fn pair_id(processor: &Value, name: &str) -> Result<u32> {
    let found = processor.get(name).and_then(|pair| id(pair.get(1)?));
    found.ok_or_else(|| wrong(format!("post_processor.{name} has no id")))
}

fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}
