//! A Unigram tokenizer of the right size: every printable ASCII character, then made-up words.

use serde_json::{Value, json};

/// `tokenizer.json` with ids `0..markers[0]` for pieces and the three markers after them.
pub(crate) fn tokenizer(pieces: usize, markers: [u32; 3]) -> Value {
    let specials = ["<pad>", "</s>", "<unk>"].map(|s| json!([s, 0.0]));
    let characters = std::iter::once("▁".to_owned()).chain((b'!'..=b'~').map(|c| char::from(c).to_string()));
    let vocabulary: Vec<Value> = specials
        .into_iter()
        .chain(characters.map(|c| json!([c, -10.0])))
        .chain((0..).map(|i| json!([format!("▁{}", word(i)), -5.0])))
        .take(pieces)
        .collect();
    let added = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let [label, separator, example] = markers;
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [
            added(0, "<pad>"), added(1, "</s>"), added(2, "<unk>"),
            added(label, "<<LABEL>>"), added(separator, "<<SEP>>"), added(example, "<<EXAMPLE>>")
        ],
        "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}
        ]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}
        },
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "model": {"type": "Unigram", "unk_id": 2, "vocab": vocabulary, "byte_fallback": false}
    })
}

/// The `i`-th word of consonant-vowel syllables.
fn word(mut i: usize) -> String {
    const SYLLABLES: [&str; 16] =
        ["ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "wu", "za"];
    let mut out = String::new();
    loop {
        out.push_str(SYLLABLES[i % 16]);
        i /= 16;
        if i == 0 {
            return out;
        }
        i -= 1;
    }
}
