//! A byte-level tokenizer of the real size with the real special tokens at their real ids: all bytes, then made-up
//! words of up to eight syllables, which English text reaches only by accident.

use serde_json::{Map, Value, json};

/// The split pattern of the releases.
const PATTERN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Tokens of the model, before the added ones.
const TOKENS: usize = 248_044;
/// The added tokens in the order of their ids, and whether they are special.
const ADDED: [(&str, bool); 33] = [
    ("<|endoftext|>", true),
    ("<|im_start|>", true),
    ("<|im_end|>", true),
    ("<|object_ref_start|>", true),
    ("<|object_ref_end|>", true),
    ("<|box_start|>", true),
    ("<|box_end|>", true),
    ("<|quad_start|>", true),
    ("<|quad_end|>", true),
    ("<|vision_start|>", true),
    ("<|vision_end|>", true),
    ("<|vision_pad|>", true),
    ("<|image_pad|>", true),
    ("<|video_pad|>", true),
    ("<tool_call>", false),
    ("</tool_call>", false),
    ("<|fim_prefix|>", false),
    ("<|fim_middle|>", false),
    ("<|fim_suffix|>", false),
    ("<|fim_pad|>", false),
    ("<|repo_name|>", false),
    ("<|file_sep|>", false),
    ("<tool_response>", false),
    ("</tool_response>", false),
    ("<think>", false),
    ("</think>", false),
    ("<|audio_start|>", true),
    ("<|audio_end|>", true),
    ("<tts_pad>", true),
    ("<tts_text_bos>", true),
    ("<tts_text_eod>", true),
    ("<tts_text_bos_single>", true),
    ("<|audio_pad|>", true),
];

/// `tokenizer.json`.
pub(super) fn tokenizer() -> Value {
    let (tokens, merges) = words();
    let vocabulary: Map<String, Value> = tokens.into_iter().zip(0..).map(|(t, id)| (t, json!(id))).collect();
    let added: Vec<Value> = ADDED
        .iter()
        .zip(TOKENS..)
        .map(|((content, special), id)| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": special})
        })
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
        ]},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": merges
        }
    })
}

/// `tokenizer_config.json`.
pub(super) fn settings() -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "model_max_length": 262_144, "clean_up_tokenization_spaces": false
    })
}

/// The characters that stand for the bytes: printable ones for themselves, the others from U+0100 on.
fn bytes() -> Vec<String> {
    let own = |b: u32| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let printable = (0..256).filter(|b| own(*b));
    let others = (0..256).filter(|b| !own(*b)).zip(256..).map(|(_, c)| c);
    printable.chain(others).filter_map(char::from_u32).map(String::from).collect()
}

/// All tokens in the order of their ids, and the pairs that make them.
fn words() -> (Vec<String>, Vec<[String; 2]>) {
    const SYLLABLES: [&str; 16] =
        ["ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "wu", "za"];
    let mut tokens = bytes();
    let mut merges = Vec::new();
    let mut add = |first: &str, second: &str| {
        if tokens.len() < TOKENS {
            tokens.push(format!("{first}{second}"));
            merges.push([first.to_owned(), second.to_owned()]);
        }
    };
    let mut level: Vec<String> = SYLLABLES.map(str::to_owned).to_vec();
    for syllable in SYLLABLES {
        add(&syllable[..1], &syllable[1..]);
    }
    // Words of two, three, four and five syllables; the longest only until all ids are taken.
    for _ in 0..4 {
        let longer: Vec<String> =
            level.iter().flat_map(|w| SYLLABLES.iter().map(move |s| format!("{w}{s}"))).collect();
        for word in &longer {
            let (first, last) = word.split_at(word.len() - 2);
            add(first, last);
        }
        level = longer;
        if level.len() > TOKENS {
            break;
        }
    }
    (tokens, merges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dikast_core::tokens::Tokenizer;
    use dikast_core::tokens::clef::ClefPrompt;

    #[test]
    fn ids_are_those_of_the_releases() {
        let (tokens, merges) = words();
        assert_eq!((tokens.len(), merges.len()), (TOKENS, TOKENS - 256));
        let tokenizer = Tokenizer::from_bytes(tokenizer().to_string().as_bytes()).expect("valid");
        assert_eq!(tokenizer.facts().largest_id, 248_076);
        let prompt = ClefPrompt::new(tokenizer).expect("a prompt");
        let ids = prompt.media_ids();
        let ids = [ids.image_pad, ids.video_pad, ids.vision_start, ids.vision_end];
        assert_eq!(ids, [248_056, 248_057, 248_053, 248_054]);
    }
}
