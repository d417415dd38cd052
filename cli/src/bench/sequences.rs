//! Made-up sequences of an exact number of tokens, laid out as the model's own prompts are.

use dikast_core::models::gliclass::{GliClass, GliClassConfig};
use dikast_core::tokens::gliclass::class_slots;
use dikast_core::tokens::{Sequence, Tokenizer};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::exit::{Failure, Result};

/// Tokens of a label after its marker, as short English labels have.
const LABEL_TOKENS: usize = 2;

/// The generator of one size: the sequences of a size do not depend on which other sizes are measured.
pub(super) fn generator(seed: u64, tokens: usize) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ (tokens as u64).rotate_left(32))
}

/// Refuses sizes that no sequence can have.
pub(super) fn check(model: &GliClass, tokens: usize, labels: usize) -> Result<()> {
    if let Some(most) = model.config().max_labels.filter(|&most| labels > most) {
        return Err(Failure::usage(format!("--labels {labels}: this model takes at most {most}")));
    }
    let least = fixed(model.tokenizer(), labels) + 1;
    if tokens < least {
        let message = format!("--tokens {tokens}: {labels} labels and a text need at least {least}");
        return Err(Failure::usage(message));
    }
    Ok(())
}

/// Tokens of a sequence besides its text.
fn fixed(tokenizer: &Tokenizer, labels: usize) -> usize {
    labels * (1 + LABEL_TOKENS) + 1 + tokenizer.surrounding()
}

/// A sequence of exactly `tokens` tokens with `labels` labels; [`check`] holds.
pub(super) fn sequence(
    model: &GliClass,
    tokens: usize,
    labels: usize,
    rng: &mut Xoshiro256PlusPlus,
) -> Sequence {
    let (config, tokenizer) = (model.config(), model.tokenizer());
    let ordinary = ordinary(config, tokenizer);
    let mut draw =
        |n: usize| -> Vec<u32> { (0..n).map(|_| ordinary[rng.random_range(0..ordinary.len())]).collect() };
    let mut prompt = Vec::new();
    for _ in 0..labels {
        prompt.push(config.class_token_index);
        prompt.extend(draw(LABEL_TOKENS));
    }
    prompt.push(config.text_token_index);
    let text = draw(tokens.saturating_sub(fixed(tokenizer, labels)));
    let content = if config.prompt_first { [prompt, text].concat() } else { [text, prompt].concat() };
    let ids = tokenizer.surround(&content);
    let attended = ids.len();
    Sequence::locate(config, ids, attended, class_slots(config, labels))
}

/// Ids that are no added token; never empty.
fn ordinary(config: &GliClassConfig, tokenizer: &Tokenizer) -> Vec<u32> {
    let added = tokenizer.added_tokens();
    let all = tokenizer.facts().largest_id.min(config.encoder.vocab_size as u32 - 1);
    let ids: Vec<u32> = (0..=all).filter(|id| added.binary_search_by_key(id, |t| t.id).is_err()).collect();
    if ids.is_empty() { vec![0] } else { ids }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn model(name: &str) -> GliClass {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/gliclass-tiny").join(name);
        let files = dikast_core::checkpoint::ModelFiles::open(dir).unwrap();
        if files.get("tokenizer.json").is_some() {
            return GliClass::load(&files).unwrap();
        }
        // The variants share one tokenizer.
        let shared = dikast_core::checkpoint::ModelFiles::open(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/gliclass-tiny/mt5"),
        )
        .unwrap();
        let own = files
            .names()
            .filter(|n| *n != "SHA256SUMS")
            .map(|n| (n.to_owned(), files.get(n).unwrap().clone()));
        let tokenizer = ("tokenizer.json".to_owned(), shared.get("tokenizer.json").unwrap().clone());
        let all: Vec<_> = own.chain([tokenizer]).collect();
        GliClass::load(&dikast_core::checkpoint::ModelFiles::from_memory(name, all)).unwrap()
    }

    #[test]
    fn every_length_and_layout_is_met() {
        for name in ["mt5", "variants/simple-avg-textfirst", "variants/hopfield-max"] {
            let model = model(name);
            for (tokens, labels) in [(27, 8), (64, 8), (6, 1), (300, 20)] {
                check(&model, tokens, labels).unwrap();
                let made = sequence(&model, tokens, labels, &mut generator(1, tokens));
                assert_eq!(made.ids.len(), tokens, "{name}");
                assert_eq!(made, sequence(&model, tokens, labels, &mut generator(1, tokens)));
                assert_ne!(made, sequence(&model, tokens, labels, &mut generator(2, tokens)));
                let spans = made.classes.iter().filter(|span| span.start < span.end).count();
                assert_eq!(spans, labels, "{name}");
            }
            assert_eq!(check(&model, 26, 8).unwrap_err().code(), 2);
        }
    }
}
