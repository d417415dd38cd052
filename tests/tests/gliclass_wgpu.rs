//! GLiClass goldens and batch invariance on a WebGPU device, f32 and f16 paths.

use std::path::PathBuf;

use dikast_core::tokens::Sequence;
use dikast_tests::data::{MT5_VARIANTS, gliclass_tiny};
use dikast_tests::{golden, gpu};
use dikast_wgpu::Precision;

/// Both paths with their bounds for a logit, a probability and a hidden state of an unquantized model.
const PATHS: [(Precision, f32, f32, f32); 2] =
    [(Precision::F32, 1e-4, 1e-4, 1e-4), (Precision::Auto, 5e-2, 5e-3, 2e-2)];

#[test]
fn the_mt5_model_gives_the_reference_logits_and_states() {
    let root = gliclass_tiny();
    let cases = golden::read(&root.join("goldens/mt5-f32.json"), None);
    for (precision, logit, probability, state) in PATHS {
        let Some(backend) = gpu::open(precision) else { return };
        let mut engine = golden::engine(backend, &root.join("mt5"));
        let difference = golden::compare(&mut engine, &cases);
        let (worst, compared) =
            golden::compare_hidden(&mut engine, &cases, &root.join("goldens/hidden.safetensors"), "");
        println!("mt5 {precision:?}: {difference:?}, hidden states {worst:.1e} over {compared}");
        assert!(difference.max_logit < logit && difference.max_prob < probability, "{difference:?}");
        assert!(compared == 10 && worst < state, "{worst} over {compared}");
    }
}

#[test]
fn every_mt5_scorer_variant_gives_the_reference_logits() {
    for (precision, logit, probability, state) in PATHS {
        for name in MT5_VARIANTS {
            let Some(backend) = gpu::open(precision) else { return };
            let root = gliclass_tiny().join("variants").join(name);
            let mut engine = golden::engine(backend, &root);
            let cases = golden::read(&root.join("golden.json"), None);
            let difference = golden::compare(&mut engine, &cases);
            println!("{name} {precision:?}: {difference:?}");
            assert!(
                difference.max_logit < logit && difference.max_prob < probability,
                "{name}: {difference:?}"
            );
            let states = root.join("hidden.safetensors");
            if states.exists() {
                let (worst, compared) = golden::compare_hidden(&mut engine, &cases, &states, "");
                assert!(compared > 0 && worst < state, "{name}: {worst} over {compared}");
            }
        }
    }
}

/// FP8 W8A8: a code flips where an f32 value lies next to a rounding boundary, so logits and states have statistical gates.
/// (That codes of the same values are the same bits is the step tests' business.)
#[test]
fn the_fp8_twin_is_within_the_statistical_gate() {
    let root = gliclass_tiny();
    let inputs = root.join("goldens/mt5-f32.json");
    let cases = golden::read(&root.join("goldens/mt5-fp8-f32.json"), Some(&inputs));
    for (precision, ..) in PATHS {
        let Some(backend) = gpu::open(precision) else { return };
        let mut engine = golden::engine(backend, &root.join("mt5-fp8"));
        let difference = golden::compare(&mut engine, &cases);
        println!("mt5-fp8 {precision:?}: {difference:?}");
        assert!(difference.mean_logit <= 0.05 && difference.max_logit <= 0.5, "{difference:?}");
        // The projections multiply E4M3 values exactly on both paths, so both have the same gates: one flipped code
        // changes its token's state by some hundredths from there on; all other values agree as in an f32 model.
        let states = root.join("goldens/hidden.safetensors");
        let (mut found, compared) = golden::hidden_differences(&mut engine, &cases, &states, "fp8-f32.");
        found.sort_by(f32::total_cmp);
        let (median, mean) = (found[found.len() / 2], found.iter().sum::<f32>() / found.len() as f32);
        let worst = found[found.len() - 1];
        println!(
            "mt5-fp8 {precision:?}: hidden states {median:.1e}, {mean:.1e}, {worst:.1e} over {compared}"
        );
        assert!(compared == 10 && median < 1e-4 && mean < 2e-3 && worst < 0.5, "{median} {mean} {worst}");
    }
}

#[test]
fn a_request_has_the_same_bits_in_any_batch() {
    let root = gliclass_tiny();
    let cases = golden::read(&root.join("goldens/mt5-f32.json"), None);
    let mut models: Vec<PathBuf> = vec![root.join("mt5"), root.join("mt5-fp8")];
    models.extend(
        ["hopfield-max", "lstm-simple-max", "weighted-dot-first"].map(|v| root.join("variants").join(v)),
    );
    for (precision, ..) in PATHS {
        for model in &models {
            let Some(backend) = gpu::open(precision) else { return };
            let mut engine = golden::engine(backend, model);
            let all: Vec<Sequence> =
                cases.iter().step_by(3).flat_map(|c| golden::sequences(&engine, c)).collect();
            let mut logits = |which: &[&Sequence]| -> Vec<Vec<u32>> {
                let logits = pollster::block_on(engine.logits(which)).expect("it runs");
                logits.iter().map(|l| l.iter().map(|x| x.to_bits()).collect()).collect()
            };
            let refs: Vec<&Sequence> = all.iter().collect();
            let together = logits(&refs);
            let backwards: Vec<&Sequence> = refs.iter().rev().copied().collect();
            let mut reversed = logits(&backwards);
            reversed.reverse();
            assert_eq!(together, reversed, "{}", model.display());
            for (i, one) in refs.iter().enumerate() {
                assert_eq!(together[i..=i], logits(&[one])[..], "{} {i}", model.display());
            }
        }
    }
}
