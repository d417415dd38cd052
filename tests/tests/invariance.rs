//! The same request gives the same bits, alone and in any batch; padding never matters.

use std::cell::RefCell;

use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::tokens::Sequence;
use dikast_tests::data::{MT5_VARIANTS, gliclass_tiny};
use dikast_tests::golden;
use proptest::prelude::*;

/// Every scorer and both weight formats.
fn models() -> Vec<std::path::PathBuf> {
    let root = gliclass_tiny();
    let variants = MT5_VARIANTS.iter().map(|v| root.join("variants").join(v));
    [root.join("mt5"), root.join("mt5-fp8")].into_iter().chain(variants).collect()
}

fn sequence(engine: &Engine<CpuBackend>, labels: &[Vec<u32>], text: &[u32]) -> Sequence {
    let config = engine.model().config();
    let mut head = Vec::new();
    for label in labels {
        head.push(config.class_token_index);
        head.extend(label);
    }
    head.push(config.text_token_index);
    let mut ids =
        if config.prompt_first { [head, text.to_vec()].concat() } else { [text.to_vec(), head].concat() };
    ids.push(1);
    let attended = ids.len();
    Sequence::locate(config, ids, attended, labels.len())
}

fn bits(logits: &[Vec<f32>]) -> Vec<Vec<u32>> {
    logits.iter().map(|l| l.iter().map(|x| x.to_bits()).collect()).collect()
}

type Request = (Vec<Vec<u32>>, Vec<u32>);

fn request() -> impl Strategy<Value = Request> {
    let tokens = |n| prop::collection::vec(3u32..2040, n);
    (prop::collection::vec(tokens(0..4), 1..7), prop_oneof![4 => tokens(0..40), 1 => tokens(100..180)])
}

#[test]
fn a_request_has_the_same_bits_in_any_batch() {
    for model in models() {
        let engine = RefCell::new(golden::engine(CpuBackend::new(), &model));
        proptest!(ProptestConfig { cases: 8, failure_persistence: None, ..Default::default() }, |(requests in prop::collection::vec(request(), 2..7))| {
            let mut engine = engine.borrow_mut();
            let sequences: Vec<Sequence> = requests.iter().map(|(l, t)| sequence(&engine, l, t)).collect();
            let refs: Vec<&Sequence> = sequences.iter().collect();
            let together = bits(&pollster::block_on(engine.logits(&refs)).expect("it runs"));
            for (i, one) in refs.iter().enumerate() {
                let alone = bits(&pollster::block_on(engine.logits(&[one])).expect("it runs"));
                prop_assert_eq!(&together[i..=i], &alone[..], "{}", model.display());
            }
            let backwards: Vec<&Sequence> = refs.iter().rev().copied().collect();
            let mut reversed = bits(&pollster::block_on(engine.logits(&backwards)).expect("it runs"));
            reversed.reverse();
            prop_assert_eq!(together, reversed, "{}", model.display());
        });
    }
}

/// With `pass` and `first` pooling the answer does not depend on padded rows at all.
#[test]
fn padding_content_never_matters() {
    let root = gliclass_tiny();
    let pooled = ["cross-attn-alltext", "weighted-dot-first"].map(|v| root.join("variants").join(v));
    for model in [root.join("mt5"), root.join("mt5-fp8")].into_iter().chain(pooled) {
        let engine = RefCell::new(golden::engine(CpuBackend::new(), &model));
        let padding = prop::collection::vec(0u32..2040, 1..40);
        proptest!(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() }, |((labels, text) in request(), padding in padding)| {
            let mut engine = engine.borrow_mut();
            let config = engine.model().config().clone();
            let plain = sequence(&engine, &labels, &text);
            let mut ids = plain.ids.clone();
            ids.extend(padding);
            let padded = Sequence::locate(&config, ids, plain.ids.len(), labels.len());
            let want = bits(&pollster::block_on(engine.logits(&[&plain])).expect("it runs"));
            let got = bits(&pollster::block_on(engine.logits(&[&padded])).expect("it runs"));
            prop_assert_eq!(want, got, "{}", model.display());
        });
    }
}

/// The token budget of a batch changes how requests are packed, not their answers.
#[test]
fn the_batch_budget_never_matters() {
    let root = gliclass_tiny();
    let cases = golden::read(&root.join("goldens/mt5-f32.json"), None);
    let mut whole = golden::engine(CpuBackend::new(), &root.join("mt5"));
    let sequences: Vec<Sequence> = cases.iter().flat_map(|c| golden::sequences(&whole, c)).collect();
    let refs: Vec<&Sequence> = sequences.iter().collect();
    let want = bits(&pollster::block_on(whole.logits(&refs)).expect("it runs"));
    for batch_tokens in [1, 100, 777] {
        let options = EngineOptions { batch_tokens, ..EngineOptions::default() };
        let mut engine =
            Engine::with_model(CpuBackend::new(), whole.model().clone(), options, &mut |_, _| {})
                .expect("it loads");
        assert_eq!(want, bits(&pollster::block_on(engine.logits(&refs)).expect("it runs")), "{batch_tokens}");
    }
}
