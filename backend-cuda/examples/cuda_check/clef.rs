//! CLEF: single steps, and models and sequences that are made up for whole runs.

use std::path::{Path, PathBuf};
use std::time::Instant;

use dikast_core::backend::Backend;
use dikast_core::checkpoint::{Blob, Checks, ModelFiles};
use dikast_core::engine::{ClefSequence, Engine, EngineOptions};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::request::QuestionKind;
use dikast_core::tokens::Span;
use dikast_core::tokens::clef::{QuestionSlots, Record};
use dikast_core::{Error, Result};
use dikast_cuda::CudaBackend;
use dikast_synth::{Format, Recipe};
use serde_json::{Value, json};

use crate::report::Report;
use crate::synth::Random;
use crate::{clef_attention, clef_delta, clef_head, clef_int8, clef_rows};

/// Single steps of CLEF models against the CPU; `small` leaves out what takes a CPU long.
pub fn steps<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    clef_head::head(report, label, cuda, small);
    clef_int8::int8(report, label, cuda, small);
    clef_rows::rows(report, label, cuda, small);
    clef_attention::attention(report, label, cuda, small);
    clef_delta::delta(report, label, cuda, small);
}

/// Times of single kernels at the 27B's sizes.
pub fn times(report: &mut Report, cuda: &CudaBackend) {
    clef_int8::bench(report, cuda);
    clef_rows::bench(report, cuda);
    clef_attention::bench(report, cuda);
    clef_delta::bench(report, cuda);
}

/// A model's folder on the host.
pub fn model(folder: &Path, int8: Int8Mode, vision: bool) -> Result<Clef> {
    // Values are looked at by the tests of the formats; here they would only take time.
    Clef::load_with(&ModelFiles::open(folder)?, ClefOptions { int8, vision, checks: Checks::HEADERS })
}

/// A model on a device.
pub fn engine<B: Backend>(backend: B, folder: &Path, int8: Int8Mode) -> Result<Engine<B, Clef>> {
    let options = EngineOptions { max_tokens: 16_384, batch_tokens: 16_384, ..EngineOptions::default() };
    Engine::with_model(backend, model(folder, int8, true)?, options, &mut |_, _| {})
}

/// How the large projections of a made-up model are stored.
pub fn int8_format() -> Format {
    Format::Int8ConvRot { group: Group::DEFAULT }
}

/// A model with some decoder layers of the 27B's shape over a small vocabulary and a small vision tower, its head of
/// the full size or a small one. `kinds` are `linear_attention` and `full_attention`; `lender` has the tokenizer.
pub fn wide_layers(
    into: &Path,
    lender: &Path,
    kinds: &[&str],
    full_head: bool,
    format: Format,
) -> Result<PathBuf> {
    let files = ModelFiles::open(lender)?;
    let read = |name: &str| -> Result<Value> {
        serde_json::from_slice(files.read(name)?.bytes()).map_err(|e| Error::Internal(format!("{name}: {e}")))
    };
    let mut config = read("config.json")?;
    let wide = json!({
        "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": kinds.len(), "layer_types": kinds,
        "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
        "linear_num_key_heads": 16, "linear_num_value_heads": 48,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10_000_000, "partial_rotary_factor": 0.25,
            "mrope_section": [11, 11, 10], "mrope_interleaved": true
        }
    });
    if let (Some(text), Some(wide)) = (config["text_config"].as_object_mut(), wide.as_object()) {
        text.extend(wide.clone());
    }
    config["vision_config"]["out_hidden_size"] = 5120.into();
    let mut head = read("joint_head_config.json")?;
    head["hidden_size"] = 5120.into();
    if full_head {
        head = json!({"hidden_size": 5120, "width": 1024, "routing_layers": 2, "layers": 4, "heads": 16, "feedforward": 4096});
    }
    let lent = ["processor_config.json", "tokenizer.json"];
    let mut small: Vec<(String, Blob)> =
        lent.iter().filter_map(|n| Some(((*n).to_owned(), files.get(n)?.clone()))).collect();
    small.push(("joint_head_config.json".to_owned(), Blob::Owned(head.to_string().into_bytes().into())));
    let tokenizer = ModelFiles::from_memory("lent", small);
    let recipe =
        Recipe { config, format, seed: 5, tokenizer: Some(tokenizer), like: "wide layers".to_owned() };
    let folder = into.join(format!("{}-{}", format.name(), kinds.len()));
    dikast_synth::write(&folder, &recipe, &mut |_, _| {})?;
    Ok(folder)
}

/// The whole 27B, the bytes that `dikast synth --like clef-27b --quant FORMAT` writes; what was written.
pub fn whole(folder: &Path, format: Format) -> Result<String> {
    const LIKE: &str = "clef-27b";
    let config = dikast_synth::preset(LIKE).ok_or_else(|| Error::Internal(format!("no preset {LIKE}")))?;
    let recipe = Recipe { config, format, seed: 1, tokenizer: None, like: LIKE.to_owned() };
    let (start, mut told) = (Instant::now(), 0);
    let written = dikast_synth::write(folder, &recipe, &mut |done, all| {
        let percent = 100 * done / all.max(1);
        if percent >= told + 10 {
            told = percent;
            println!("{percent} % after {:.1} s", start.elapsed().as_secs_f64());
        }
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let rate = written.bytes as f64 / seconds / 1e9;
    Ok(format!(
        "{} bytes, {} parameters in {seconds:.1} s, {rate:.2} GB/s",
        written.bytes, written.parameters
    ))
}

/// A text of `tokens` random tokens: a state, then questions of eight tokens whose options have two each.
pub fn sequence(model: &Clef, tokens: usize, questions: usize, options: usize, seed: u64) -> ClefSequence {
    let mut random = Random::new(seed.wrapping_mul(31).wrapping_add(tokens as u64));
    // Tokens with a meaning of their own come last.
    let added = model.prompt().tokenizer().added_tokens().iter().map(|t| t.id).min();
    let ordinary = added.unwrap_or(model.config().text.vocab_size as u32).max(1) as usize;
    let asked = questions * (8 + 2 * options);
    let mut at = tokens.saturating_sub(asked) as u32;
    let state = Span { start: 0, end: at };
    let mut span = |length: u32| {
        at += length;
        Span { start: at - length, end: at }
    };
    let questions = (0..questions).map(|i| QuestionSlots {
        kind: QuestionKind::ALL[i % QuestionKind::ALL.len()],
        span: span(8),
        options: (0..options).map(|_| span(2)).collect(),
        option_ids: (0..options).map(|o| o.to_string()).collect(),
    });
    let questions = questions.collect();
    let tokens = tokens.max(asked);
    let record = Record {
        ids: (0..tokens).map(|_| random.below(ordinary) as u32).collect(),
        positions: (0..tokens as i32).map(|t| [t; 3]).collect(),
        state,
        questions,
        ..Record::default()
    };
    ClefSequence { record, media: Vec::new() }
}

/// The bits of logits, to compare them.
pub fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}
