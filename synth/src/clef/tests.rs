//! The real sizes without the real files; small files that load and agree.

use super::*;
use crate::preset;
use dikast_core::checkpoint::{Checks, ModelFiles, Weights};
use dikast_core::numerics::hadamard::Group;
use dikast_quantize::{Options, convert};

fn recipe(config: Value, format: Format, tokenizer: Option<ModelFiles>) -> Recipe {
    Recipe { config, format, seed: 3, tokenizer, like: "test".to_owned() }
}

fn plan(name: &str, scheme: Scheme) -> Plan {
    let recipe = recipe(preset(name).expect("a preset"), Format::Bf16, None);
    let expected = expected(&small_files(&recipe).expect("its files")).expect("its tensors");
    Plan::new(&expected, scheme, SHARD_BYTES, &Drawn { seed: 1 }).expect("a plan")
}

#[test]
fn the_published_sizes_are_met() {
    let codes = Scheme::Int8ConvRot { group: Group::DEFAULT };
    for (name, parameters, large, channels, matrices) in [
        ("clef-27b", 27_484_784_884u64, 24_326_963_200u64, 3_899_392u64, 400),
        ("clef-9b", 9_531_576_564, 6_912_212_992, 1_425_408, 200),
    ] {
        let kept = plan(name, Scheme::Keep);
        assert_eq!((kept.parameters(), kept.tensor_bytes()), (parameters, 2 * parameters), "{name}");
        let coded = plan(name, codes);
        assert_eq!((coded.parameters(), coded.quantized()), (parameters, matrices), "{name}");
        assert_eq!(coded.tensor_bytes(), large + 2 * (parameters - large) + 4 * channels, "{name}");
        assert!(kept.file_names().count() > 3 && kept.file_names().any(|n| n == "joint_head.safetensors"));
    }
    // 51.194 GiB, as published.
    let gibibytes = plan("clef-27b", Scheme::Keep).tensor_bytes() as f64 / f64::from(1 << 30);
    assert!((gibibytes - 51.194).abs() < 0.001, "{gibibytes}");
}

/// The small real checkpoint lends its configuration and tokenizer.
fn tiny() -> (Value, ModelFiles) {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/clef-tiny/model");
    let files = ModelFiles::open(dir).expect("the fixture");
    let config = serde_json::from_slice(files.read(CONFIG).expect("its configuration").bytes());
    (config.expect("JSON"), files)
}

fn weights(dir: &Path) -> Weights {
    let files = ModelFiles::open(dir).expect("the folder");
    let (config, head) = (files.read(CONFIG).expect("there"), files.read(HEAD_CONFIG).expect("there"));
    let expected = expected_tensors(&ClefConfig::from_json(config.bytes(), head.bytes()).expect("valid"));
    Weights::open(&files, &expected, Checks::ALL).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn codes_of_a_seed_are_the_codes_of_its_weights() {
    let dir = tempfile::tempdir().expect("a folder");
    let group = Group::new(64).expect("a group");
    let (config, files) = tiny();
    let write = |name: &str, format| {
        let path = dir.path().join(name);
        let recipe = recipe(config.clone(), format, Some(files.clone()));
        crate::write(&path, &recipe, &mut |_, _| {}).expect("it is written");
        path
    };
    let plain = write("bf16", Format::Bf16);
    let coded = write("int8", Format::Int8ConvRot { group });
    let target = dir.path().join("converted");
    std::fs::create_dir(&target).expect("a folder");
    convert(&plain, &target, Options::new(Scheme::Int8ConvRot { group }), &mut |_, _| {}).expect("converted");
    let (coded, converted) = (weights(&coded), weights(&target));
    assert_eq!(coded.iter().count(), converted.iter().count());
    for ((name, a), (_, b)) in coded.iter().zip(converted.iter()) {
        assert_eq!((a.dtype, a.bytes), (b.dtype, b.bytes), "{name}");
    }
    assert!(crate::Provenance::read(&ModelFiles::open(&target).expect("there")).is_some(), "still synthetic");
}

#[test]
fn another_quantization_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (config, files) = tiny();
    for (format, word) in
        [(Format::Fp8, "int8-convrot"), (Format::Int8ConvRot { group: Group::DEFAULT }, "group-size")]
    {
        let recipe = recipe(config.clone(), format, Some(files.clone()));
        let out = dir.path().join("out");
        let error = crate::write(&out, &recipe, &mut |_, _| {}).expect_err("refused");
        assert!(matches!(error, Error::InvalidRequest { .. }) && error.to_string().contains(word), "{error}");
        assert!(!out.exists());
    }
}

/// Root mean square.
fn size(values: impl Iterator<Item = f32>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), v| (sum + f64::from(v).powi(2), n + 1.0));
    f64::sqrt(sum / n)
}

#[test]
fn activations_stay_sane_through_64_layers_and_have_loud_channels() {
    use dikast_core::backend::Taps;
    use dikast_core::cpu::CpuBackend;
    use dikast_core::engine::{Engine, EngineOptions};
    use dikast_core::models::clef::Clef;
    use dikast_core::request::DecideRequest;

    let dir = tempfile::tempdir().expect("a folder");
    let (mut config, files) = tiny();
    let kinds: Vec<&str> =
        (1..=64).map(|i| if i % 4 == 0 { "full_attention" } else { "linear_attention" }).collect();
    config["text_config"]["layer_types"] = kinds.clone().into();
    config["text_config"]["num_hidden_layers"] = 64.into();
    crate::write(dir.path(), &recipe(config, Format::Bf16, Some(files)), &mut |_, _| {}).expect("written");
    let model = Clef::load(&ModelFiles::open(dir.path()).expect("the folder")).expect("it loads");
    let options = EngineOptions { max_tokens: 4096, ..EngineOptions::default() };
    let mut engine = Engine::with_model(CpuBackend::new(), model, options, &mut |_, _| {}).expect("loaded");

    let request = r#"{"state": "Parcel 17 arrived late and broken; the customer wants the money back by Friday.",
        "questions": {"late": {"type": "noul"}, "what": {"type": "choice", "criteria": {"refund": null, "new": "x"}}}}"#;
    let request = DecideRequest::from_json(request).expect("valid");
    let sequence = engine.prepare(&request).expect("a sequence");
    let outs: Vec<String> = (0..64).map(|i| format!("layer.{i}.out")).collect();
    let inputs = kinds.iter().enumerate().map(|(i, kind)| match *kind {
        "full_attention" => format!("layer.{i}.qkv.in"),
        _ => format!("layer.{i}.qkvz.in"),
    });
    let inputs: Vec<String> = inputs.collect();
    let names: Vec<&str> = outs.iter().chain(&inputs).map(String::as_str).collect();
    let mut taps = Taps::named(engine.graph(), &names).expect("names of the graph");
    let logits = pollster::block_on(engine.run(&[&sequence], &mut taps)).expect("a run").remove(0);
    assert!(logits.len() == 4 && logits.iter().all(|l| l.is_finite() && l.abs() < 200.0), "{logits:?}");
    let tap = |name: &String| {
        let id = engine.graph().find(name).expect("a tensor");
        taps.get(id).expect("a tap")
    };
    for name in &outs {
        let size = size(tap(name).iter().copied());
        assert!((0.02..20.0).contains(&size), "{name}: {size}");
    }
    // After a norm most channels are of size one, and a few are several times as loud.
    let mut loudest = 0f64;
    for name in &inputs {
        let rows = tap(name);
        let mut channels: Vec<f64> =
            (0..128).map(|c| size(rows.iter().skip(c).step_by(128).copied())).collect();
        channels.sort_by(f64::total_cmp);
        assert!((0.1..4.0).contains(&channels[64]), "{name}: {}", channels[64]);
        loudest = loudest.max(channels[127] / channels[64]);
    }
    assert!(loudest > 5.0, "{loudest}");
}
