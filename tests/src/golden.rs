//! Goldens of the reference package: given token ids and masks, the logits and hidden states it computed.

use std::path::Path;

use dikast_core::backend::{Backend, Taps};
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::tokens::Sequence;
use serde::Deserialize;

/// One request of a golden file; one entry of each list per text.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    /// Name of the request.
    pub id: String,
    /// Logits of each text.
    pub logits: Vec<Vec<f32>>,
    /// Probabilities of each text.
    pub probs: Vec<Vec<f32>>,
    /// Padded token ids of each text.
    #[serde(default)]
    pub input_ids: Vec<Vec<u32>>,
    /// 1 where a token counts.
    #[serde(default)]
    pub attention_mask: Vec<Vec<u32>>,
    /// Class slots of the forward pass.
    #[serde(default)]
    pub max_num_classes: usize,
}

#[derive(Debug, Deserialize)]
struct File {
    requests: Vec<Case>,
}

/// Reads a golden file. Where it has no ids, they are taken from `inputs`, which lists the same requests.
pub fn read(path: &Path, inputs: Option<&Path>) -> Vec<Case> {
    let parse = |path: &Path| {
        let text = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_slice::<File>(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display())).requests
    };
    let mut cases = parse(path);
    for (case, source) in cases.iter_mut().zip(inputs.map(parse).unwrap_or_default()) {
        assert_eq!(case.id, source.id);
        case.input_ids = source.input_ids;
        case.attention_mask = source.attention_mask;
        case.max_num_classes = source.max_num_classes;
    }
    cases
}

/// The sequences of a case, padding and all: the reference's batch, replayed text by text.
pub fn sequences<B: Backend>(engine: &Engine<B>, case: &Case) -> Vec<Sequence> {
    case.input_ids
        .iter()
        .zip(&case.attention_mask)
        .map(|(ids, mask)| {
            let attended = mask.iter().sum::<u32>() as usize;
            Sequence::locate(engine.model().config(), ids.clone(), attended, case.max_num_classes)
        })
        .collect()
}

/// How far the answers of a golden file are off.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Difference {
    /// Largest difference of a logit.
    pub max_logit: f32,
    /// Mean difference of a logit.
    pub mean_logit: f32,
    /// Largest difference of a probability.
    pub max_prob: f32,
    /// Logits compared.
    pub count: usize,
}

/// Runs all cases in one packed batch and compares logits and probabilities.
///
/// The golden's probabilities tell the mode: they sum to one over the labels of a single-label text.
pub fn compare<B: Backend>(engine: &mut Engine<B>, cases: &[Case]) -> Difference {
    let all: Vec<Vec<Sequence>> = cases.iter().map(|c| sequences(engine, c)).collect();
    let flat: Vec<&Sequence> = all.iter().flatten().collect();
    let logits = pollster::block_on(engine.logits(&flat)).expect("the forward pass runs");
    let mut difference = Difference::default();
    let mut sum = 0.0;
    let goldens = cases.iter().flat_map(|c| c.logits.iter().zip(&c.probs).map(move |(l, p)| (c, l, p)));
    for ((case, want, probs), got) in goldens.zip(&logits) {
        let got = &got[..want.len()];
        for (g, w) in got.iter().zip(want) {
            assert!(g.is_finite(), "{}: {got:?}", case.id);
            difference.max_logit = difference.max_logit.max((g - w).abs());
            sum += (g - w).abs();
            difference.count += 1;
        }
        let sigmoid: Vec<f32> = got.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
        let softmax = softmax(got);
        let off = |ours: &[f32]| ours.iter().zip(probs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        difference.max_prob = difference.max_prob.max(off(&sigmoid).min(off(&softmax)));
    }
    difference.mean_logit = sum / difference.count.max(1) as f32;
    difference
}

fn softmax(x: &[f32]) -> Vec<f32> {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let e: Vec<f32> = x.iter().map(|v| (v - max).exp()).collect();
    let sum: f32 = e.iter().sum();
    e.iter().map(|v| v / sum).collect()
}

/// Largest difference of the hidden states of the given requests, layer by layer, from a `hidden.safetensors`, and the number
/// of states.
pub fn compare_hidden<B: Backend>(
    engine: &mut Engine<B>,
    cases: &[Case],
    states: &Path,
    prefix: &str,
) -> (f32, usize) {
    let (differences, compared) = hidden_differences(engine, cases, states, prefix);
    (differences.into_iter().fold(0.0, f32::max), compared)
}

/// Differences of all values of the hidden states of the given requests, layer by layer, from a `hidden.safetensors`, and
/// the number of states.
///
/// State 0 is the embedding, state `i` the input of block `i`, the last one the encoder's output.
pub fn hidden_differences<B: Backend>(
    engine: &mut Engine<B>,
    cases: &[Case],
    states: &Path,
    prefix: &str,
) -> (Vec<f32>, usize) {
    let bytes = std::fs::read(states).unwrap_or_else(|e| panic!("{}: {e}", states.display()));
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let layers = engine.model().config().encoder.num_layers;
    let names: Vec<String> = std::iter::once("embed".to_owned())
        .chain((0..layers - 1).map(|i| format!("block.{i}.out")))
        .chain(std::iter::once("encoder".to_owned()))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut differences, mut compared) = (Vec::new(), 0);
    for case in cases {
        if file.tensor(&format!("{prefix}{}.hidden.0", case.id)).is_err() {
            continue;
        }
        let own = sequences(engine, case);
        let mut taps = Taps::named(engine.graph(), &names).expect("the graph has these tensors");
        pollster::block_on(engine.run(&own.iter().collect::<Vec<_>>(), &mut taps))
            .expect("the forward pass runs");
        for (layer, name) in names.iter().enumerate() {
            let golden =
                file.tensor(&format!("{prefix}{}.hidden.{layer}", case.id)).expect("a state per layer");
            let id = engine.graph().find(name).expect("the graph has this tensor");
            let got = taps.get(id).expect("the tap was filled");
            let want: Vec<f32> =
                golden.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            assert_eq!(got.len(), want.len(), "{} {name}", case.id);
            for (row, (g, w)) in got.iter().zip(&want).enumerate() {
                let token = row / engine.model().config().hidden_size;
                let (text, place) = (token / own[0].ids.len(), token % own[0].ids.len());
                // States of padding mean nothing.
                if (place as u32) < own[text].attended {
                    differences.push((g - w).abs());
                }
            }
            compared += 1;
        }
    }
    (differences, compared)
}

/// An engine over a model folder; the variants share the tokenizer of the `mt5` fixture.
pub fn engine<B: Backend>(backend: B, model: &Path) -> Engine<B> {
    let open = |path: &Path| ModelFiles::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (own, shared) = (open(model), open(&crate::data::gliclass_tiny().join("mt5")));
    let mut names: Vec<&str> = own.names().chain(["tokenizer.json"]).collect();
    names.dedup();
    let file = |name: &str| own.get(name).or_else(|| shared.get(name)).expect("the file is listed").clone();
    let files = ModelFiles::from_memory(own.name(), names.into_iter().map(|n| (n.to_owned(), file(n))));
    Engine::load(backend, &files, EngineOptions::default())
        .unwrap_or_else(|e| panic!("{}: {e}", model.display()))
}
