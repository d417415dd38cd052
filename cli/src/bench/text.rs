//! A request whose text and labels have a wanted number of tokens.

use dikast_core::models::gliclass::GliClass;
use dikast_core::request::{ClassifyRequest, LabelSet};
use dikast_core::tokens::gliclass::render;
use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::exit::{Failure, Result};

/// Words to look for in the vocabulary.
const WORDS: usize = 512;
/// Ids to look at for them.
const LOOKS: usize = 20_000;
/// Corrections of the length.
const CORRECTIONS: usize = 100;
/// Where the vocabulary has no words of its own.
const FALLBACK: [&str; 8] = ["time", "year", "people", "way", "day", "man", "thing", "woman"];

/// A request of `tokens` tokens with `labels` labels, and the number of tokens it really has: words of the vocabulary,
/// which need not keep their length beside each other.
pub(super) fn request(
    model: &GliClass,
    tokens: usize,
    labels: usize,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<(ClassifyRequest, usize)> {
    let words = words(model, rng);
    let mut draw = || words[rng.random_range(0..words.len())].clone();
    // A number makes equal words different labels.
    let labels: Vec<String> =
        (0..labels).map(|i| if i == 0 { draw() } else { format!("{} {i}", draw()) }).collect();
    let mut text: Vec<String> = Vec::new();
    let mut count = length(model, &text, &labels)?;
    for _ in 0..CORRECTIONS {
        match tokens.checked_sub(count) {
            Some(0) => break,
            Some(missing) => text.extend((0..missing).map(|_| draw())),
            // One more goes, so that the next round may end with a shorter word.
            None => text.truncate(text.len().saturating_sub(count - tokens)),
        }
        count = length(model, &text, &labels)?;
    }
    let set = LabelSet::flat(labels);
    Ok((ClassifyRequest::new(text.join(" "), set), count))
}

fn length(model: &GliClass, text: &[String], labels: &[String]) -> Result<usize> {
    let rendered = render(model.config().prompt_first, &text.join(" "), labels, "", &[]);
    let encoded = model.tokenizer().encode(&rendered.prompt).map_err(Failure::Engine)?;
    Ok(encoded.ids.len() + model.tokenizer().surrounding())
}

/// Whole words of the vocabulary, by chance.
fn words(model: &GliClass, rng: &mut Xoshiro256PlusPlus) -> Vec<String> {
    let tokenizer = model.tokenizer();
    let last = tokenizer.facts().largest_id;
    let mut words: Vec<String> = Vec::with_capacity(WORDS);
    for _ in 0..LOOKS {
        let token = tokenizer.token(rng.random_range(0..=last)).unwrap_or_default();
        if let Some(word) = token.strip_prefix('▁')
            && word.len() > 1
            && word.chars().all(char::is_alphabetic)
        {
            words.push(word.to_owned());
        }
        if words.len() == WORDS {
            break;
        }
    }
    if words.len() < FALLBACK.len() { FALLBACK.map(str::to_owned).into() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sequences::generator;

    #[test]
    fn the_built_in_model_gets_texts_of_every_length() {
        let model = GliClass::load(&dikast_models::gliclass_mini()).unwrap();
        for tokens in [64, 128, 256] {
            let (request, count) = request(&model, tokens, 8, &mut generator(3, tokens)).unwrap();
            assert_eq!(count, tokens);
            assert_eq!(request.labels.len(), 8);
            request.validate().unwrap();
        }
    }
}
