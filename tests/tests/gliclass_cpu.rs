//! GLiClass goldens on the CPU backend.

use dikast_core::cpu::CpuBackend;
use dikast_tests::data::{MT5_VARIANTS, gliclass_tiny};
use dikast_tests::golden;

#[test]
fn the_mt5_model_gives_the_reference_logits_and_states() {
    let root = gliclass_tiny();
    let mut engine = golden::engine(CpuBackend::new(), &root.join("mt5"));
    let cases = golden::read(&root.join("goldens/mt5-f32.json"), None);
    assert_eq!(cases.len(), 31);
    let difference = golden::compare(&mut engine, &cases);
    println!("mt5: {difference:?}");
    assert!(difference.max_logit < 1e-4 && difference.max_prob < 1e-4, "{difference:?}");
    let (worst, compared) =
        golden::compare_hidden(&mut engine, &cases, &root.join("goldens/hidden.safetensors"), "");
    println!("mt5: hidden states {worst:.1e} over {compared}");
    assert!(compared == 10 && worst < 1e-4, "{worst} over {compared}");
}

#[test]
fn every_mt5_scorer_variant_gives_the_reference_logits_and_states() {
    for name in MT5_VARIANTS {
        let root = gliclass_tiny().join("variants").join(name);
        let mut engine = golden::engine(CpuBackend::new(), &root);
        let cases = golden::read(&root.join("golden.json"), None);
        assert_eq!(cases.len(), 4, "{name}");
        let difference = golden::compare(&mut engine, &cases);
        println!("{name}: {difference:?}");
        assert!(difference.max_logit < 1e-4 && difference.max_prob < 1e-4, "{name}: {difference:?}");
        let states = root.join("hidden.safetensors");
        if states.exists() {
            let (worst, compared) = golden::compare_hidden(&mut engine, &cases, &states, "");
            println!("{name}: hidden states {worst:.1e} over {compared}");
            assert!(compared > 0 && worst < 1e-4, "{name}: {worst} over {compared}");
        }
    }
}

/// FP8 W8A8: codes flip where an f32 value lies next to a rounding boundary, so logits have a statistical gate.
#[test]
fn the_fp8_twin_is_within_the_statistical_gate() {
    let root = gliclass_tiny();
    let mut engine = golden::engine(CpuBackend::new(), &root.join("mt5-fp8"));
    let inputs = root.join("goldens/mt5-f32.json");
    let cases = golden::read(&root.join("goldens/mt5-fp8-f32.json"), Some(&inputs));
    let difference = golden::compare(&mut engine, &cases);
    println!("mt5-fp8: {difference:?}");
    assert!(difference.mean_logit <= 0.05 && difference.max_logit <= 0.5, "{difference:?}");
    let states = root.join("goldens/hidden.safetensors");
    let (worst, compared) = golden::compare_hidden(&mut engine, &cases, &states, "fp8-f32.");
    println!("mt5-fp8: hidden states {worst:.1e} over {compared}");
    assert!(compared == 10 && worst < 1e-4, "{worst} over {compared}");
}
