//! Random tiny models on every device there is, step by step against the definitions: layer kinds, heads, groups and widths
//! that no fixture has.
//!
//! Few in a test run; `DIKAST_PARITY_CASES=N` for more of each family, `DIKAST_PARITY_SEED=N` for others. CUDA is compared
//! where there is a device, or under `kernels/emulator/run`.
#![allow(clippy::print_stdout, clippy::type_complexity, reason = "tests print what they compared")]

use std::path::Path;

use dikast_core::backend::Backend;
use dikast_core::checkpoint::{Blob, ModelFiles};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions, Model};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::models::gliclass::{GliClass, Pooling, Scorer};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::request::{ClassifyRequest, DecideRequest, LabelSet};
use dikast_core::{Error, Result};
use dikast_cuda::{CudaBackend, CudaOptions};
use dikast_parity::{Recording, Report, Tolerance, judge, record};
use dikast_synth::{Format, Recipe, write};
use dikast_tests::data::gliclass_tiny;
use dikast_tests::{clef, gpu};
use dikast_wgpu::Precision;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError, TestRunner};
use serde_json::{Value, json};

/// How many models of a family, unless the environment says otherwise.
const CASES: u32 = 6;

fn runner() -> TestRunner {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name}={v}: no number")))
    };
    TestRunner::new(ProptestConfig {
        cases: number("DIKAST_PARITY_CASES", u64::from(CASES)) as u32,
        rng_seed: RngSeed::Fixed(number("DIKAST_PARITY_SEED", 1)),
        failure_persistence: None,
        // A smaller model that fails too is worth a few more runs.
        max_shrink_iters: 24,
        ..ProptestConfig::default()
    })
}

/// The devices to judge, by name, each with what its steps may differ by.
fn devices<M: Model + Clone>(
    load: &dyn Fn() -> M,
    sequences: &dyn Fn(&Engine<CpuBackend, M>) -> Vec<M::Sequence>,
    quantized: bool,
) -> std::result::Result<(), TestCaseError> {
    let model = load();
    let mut cpu = engine(CpuBackend::new(), model.clone()).expect("an engine");
    let sequences = sequences(&cpu);
    let sequences: Vec<&M::Sequence> = sequences.iter().collect();
    let want = pollster::block_on(record(&mut cpu, &sequences)).expect("a recording");
    let judged = |name: &str, found: &Recording, tolerance: Tolerance| {
        let tolerance = if quantized { tolerance.quantized() } else { tolerance };
        let definition = (model.graph(), model.weights());
        let report = judge(name, definition, found, &want, tolerance).expect("a report");
        verdict(&report, tolerance == Tolerance::F32)
    };
    for (name, precision, tolerance) in
        [("wgpu f32", Precision::F32, Tolerance::F32), ("wgpu f16", Precision::Auto, Tolerance::F16)]
    {
        let Some(backend) = gpu::open(precision) else { continue };
        let found = recorded(backend, &model, &sequences).expect("a recording");
        judged(name, &found, tolerance)?;
    }
    for (name, portable) in [("cuda", false), ("cuda portable", true)] {
        // Values that nobody wrote are NaN.
        let options = CudaOptions { portable, poison: true, ..CudaOptions::default() };
        let Ok(backend) = CudaBackend::open(options) else { break };
        match recorded(backend, &model, &sequences) {
            Ok(found) => judged(name, &found, Tolerance::F16)?,
            // Its kernels are for the widths of real models; others it must refuse.
            Err(Error::Unsupported { need, .. }) => println!("{name}: refused, {need}"),
            Err(other) => panic!("{name}: {other}"),
        }
    }
    Ok(())
}

fn engine<B: Backend, M: Model>(backend: B, model: M) -> Result<Engine<B, M>> {
    let options = EngineOptions { max_tokens: 2048, batch_tokens: 4096, ..EngineOptions::default() };
    Engine::with_model(backend, model, options, &mut |_, _| {})
}

fn recorded<B: Backend, M: Model + Clone>(
    backend: B,
    model: &M,
    sequences: &[&M::Sequence],
) -> Result<Recording> {
    pollster::block_on(record(&mut engine(backend, model.clone())?, sequences))
}

/// Every step within its contract, and every sequence with the same bits in a batch; in f32 the logits too. What f16 and
/// flipped codes make of the logits of a model drawn at random has no bound.
fn verdict(report: &Report, logits: bool) -> std::result::Result<(), TestCaseError> {
    let off = report.first_off().map(|s| {
        format!(
            "step {}, {} ({}): {:.1e}, allowed {:.1e}",
            s.index,
            s.tensor,
            s.rule.name(),
            s.worst,
            s.allowed
        )
    });
    let worst =
        report.steps.iter().filter(|s| s.allowed > 0.0).map(|s| s.worst / s.allowed).fold(0.0_f64, f64::max);
    println!(
        "{}: {} steps, worst at {:.0} % of what is allowed, logits {:.1e}",
        report.model,
        report.steps.len(),
        100.0 * worst,
        report.logits.relative
    );
    prop_assert!(off.is_none(), "{}: {}", report.model, off.unwrap_or_default());
    prop_assert!(report.batch_invariant, "{}: a batch changes bits", report.model);
    prop_assert!(!logits || report.logits.ok, "{}: logits {:.1e}", report.model, report.logits.relative);
    Ok(())
}

fn read(path: &Path) -> Blob {
    Blob::Owned(std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).into())
}

fn parsed(path: &Path) -> Value {
    serde_json::from_slice(read(path).bytes()).expect("JSON")
}

/// The model of a configuration, written and read as any other.
fn written<T>(
    config: Value,
    format: Format,
    seed: u64,
    files: ModelFiles,
    load: impl FnOnce(&ModelFiles) -> T,
) -> T {
    let dir = tempfile::tempdir().expect("a folder");
    let recipe = Recipe { config, format, seed, tokenizer: Some(files), like: "random".to_owned() };
    write(dir.path(), &recipe, &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"));
    load(&ModelFiles::open(dir.path()).expect("the folder opens"))
}

/// A CLEF configuration, `joint_head_config.json` and the rotation of its codes.
#[derive(Debug, Clone)]
struct ClefShape {
    config: Value,
    head: Value,
    group: Option<usize>,
    exact: bool,
    seed: u64,
}

fn clef_shape() -> impl Strategy<Value = ClefShape> {
    // The rotation of codes, and what all widths are multiples of: whole groups, or any that a configuration allows.
    let kind = prop::sample::select(vec![
        (None, 1),
        (None, 16),
        (None, 64),
        (Some(4), 4),
        (Some(16), 16),
        (Some(64), 64),
        (Some(64), 64),
    ]);
    kind.prop_flat_map(|(group, unit)| {
        let width = move |most: usize| (1..=most.div_ceil(unit)).prop_map(move |n| n * unit);
        let kinds = prop::collection::vec(prop::bool::ANY, 1..=3);
        let share = prop::sample::select(vec![1.0, 0.5, 0.25]);
        // Even, also after the share that is rotated.
        let head = (1..=72_usize.div_ceil(8 * unit.div_ceil(8)), share)
            .prop_map(move |(n, share)| (n * 8 * unit.div_ceil(8), share));
        let attention = (1..=2_usize, 1..=3_usize, head);
        // Keys and values of one width in all published models.
        let alike = prop::sample::select(vec![32_usize, 64]).prop_map(move |n| n.next_multiple_of(unit));
        let widths = prop_oneof![1 => (width(40), width(40)), 3 => alike.prop_map(|n| (n, n))];
        let linear = (1..=2_usize, 1..=3_usize, widths);
        let sections = (0..=usize::MAX / 2, 0..=usize::MAX / 2);
        let vision = (1..=2_usize, 1..=3_usize, 1..=5_usize, 1..=70_usize, 2..=6_usize);
        let joint = (1..=4_usize, 1..=20_usize, 0..=2_usize, 0..=2_usize, 1..=70_usize);
        // Four taps in all published models.
        let taps = prop_oneof![3 => Just(4_usize), 1 => 1..=6_usize];
        let rest = (width(150), width(200), taps, prop::bool::ANY, 0..1000_u64);
        (kinds, attention, linear, sections, vision, joint, rest).prop_map(move |parts| {
            let (kinds, attention, linear, (a, b), vision, joint, rest) = parts;
            let (kv_heads, shared, (head_dim, share)) = attention;
            let (hidden, intermediate, taps, exact, seed) = rest;
            // Where widths are not any, tower, head and frequencies are whole fours too.
            let four = |n: usize| if unit > 1 { n.next_multiple_of(4) } else { n };
            let share = if unit > 1 && (head_dim as f64 * share / 8.0).fract() != 0.0 { 1.0 } else { share };
            let half = (head_dim as f64 * share) as usize / 2;
            let (rows, columns) = (a % (half.div_ceil(3) + 1), b % ((half + 1) / 3 + 1));
            let mut config = parsed(&clef::folder().join("model/config.json"));
            let kind = |full: &bool| if *full { "full_attention" } else { "linear_attention" };
            let text = &mut config["text_config"];
            for (key, value) in [
                ("hidden_size", hidden),
                ("intermediate_size", intermediate),
                ("num_hidden_layers", kinds.len()),
                ("num_key_value_heads", kv_heads),
                ("num_attention_heads", kv_heads * shared),
                ("head_dim", head_dim),
                ("linear_num_key_heads", linear.0),
                ("linear_num_value_heads", linear.0 * linear.1),
                ("linear_key_head_dim", linear.2.0),
                ("linear_value_head_dim", linear.2.1),
                ("linear_conv_kernel_dim", taps),
            ] {
                text[key] = value.into();
            }
            text["layer_types"] = kinds.iter().map(kind).collect();
            text["rope_parameters"]["partial_rotary_factor"] = share.into();
            text["rope_parameters"]["mrope_section"] = json!([half - rows - columns, rows, columns]);
            let tower = &mut config["vision_config"];
            let (depth, heads, quarter, feed_forward, side) = vision;
            for (key, value) in [
                ("depth", depth),
                ("hidden_size", 4 * heads * four(quarter)),
                ("num_heads", heads),
                ("intermediate_size", four(feed_forward)),
                ("num_position_embeddings", side * side),
                ("out_hidden_size", hidden),
            ] {
                tower[key] = value.into();
            }
            let (heads, of_head, routing_layers, layers, feedforward) = joint;
            let head = json!({"hidden_size": hidden, "width": heads * four(of_head), "routing_layers": routing_layers,
                "layers": layers, "heads": heads, "feedforward": four(feedforward)});
            ClefShape { config, head, group, exact, seed }
        })
    })
}

fn clef_model(shape: &ClefShape) -> Clef {
    let folder = clef::folder().join("model");
    let head = Blob::Owned(shape.head.to_string().into_bytes().into());
    let files = ["processor_config.json", "tokenizer.json"]
        .map(|name| (name.to_owned(), read(&folder.join(name))))
        .into_iter()
        .chain([("joint_head_config.json".to_owned(), head)]);
    let format = match shape.group {
        Some(group) => Format::Int8ConvRot { group: Group::new(group).expect("a size") },
        None => Format::Bf16,
    };
    let files = ModelFiles::from_memory("clef-tiny", files);
    let int8 = if shape.exact { Int8Mode::Exact } else { Int8Mode::Standard };
    written(shape.config.clone(), format, shape.seed, files, |files| {
        let options = ClefOptions { int8, ..ClefOptions::default() };
        Clef::load_with(files, options).unwrap_or_else(|e| panic!("{e}"))
    })
}

#[test]
fn clef_models_are_within_the_contracts_of_their_steps() {
    let text = r#"{"state": "The lift is stuck again.", "questions": {
        "late": {"type": "noul", "instructions": "Is it urgent?"},
        "team": {"type": "choice", "criteria": {"repair": null, "sales": "prices", "other": null}}}}"#;
    let picture =
        r#"{"state": {"n": 1.0}, "questions": {"how": {"type": "score", "criteria": ["low", "high"]}}}"#;
    let mut requests = [text, picture].map(|r| DecideRequest::from_json(r).expect("a request"));
    requests[1].images.push(dikast_models::PICTURE.to_vec());
    let outcome = runner().run(&clef_shape(), |shape| {
        let sequences = |cpu: &Engine<CpuBackend, Clef>| {
            requests.each_ref().map(|r| cpu.prepare(r).expect("prepared")).into()
        };
        devices(&|| clef_model(&shape), &sequences, shape.group.is_some())
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
}

/// A GLiClass configuration.
#[derive(Debug, Clone)]
struct GliShape {
    config: Value,
    fp8: bool,
    seed: u64,
}

fn gliclass_shape() -> impl Strategy<Value = GliShape> {
    let encoder = (1..=3_usize, 1..=4_usize, 1..=70_usize, 1..=200_usize, 1..=10_usize, 1..=40_usize);
    // What the encoder's widths are multiples of.
    let unit = prop::sample::select(vec![1_usize, 1, 16, 32]);
    let scorer = prop::sample::select(Scorer::ALL.to_vec());
    let pooling = prop::sample::select(Pooling::ALL.to_vec());
    let flags = prop::array::uniform7(prop::bool::ANY);
    let head = (1..=4_usize, 1..=40_usize, 2..=70_usize);
    (encoder, scorer, pooling, flags, head, unit, 0..1000_u64).prop_map(
        |(encoder, scorer, pooling, flags, (heads, of_head, mlp), unit, seed)| {
            let (layers, encoder_heads, d_kv, d_ff, quarter, distance) = encoder;
            let [fp8, average, normalize, lstm, segments, first, embed] = flags;
            // These two go only together.
            let pooling = match (scorer, pooling) {
                (Scorer::CrossAttn, _) => Pooling::Pass,
                (_, Pooling::Pass) => Pooling::Rms,
                (_, other) => other,
            };
            let width = heads * of_head.next_multiple_of(unit) * if lstm { 2 } else { 1 };
            let mut config = parsed(&gliclass_tiny().join("mt5/config.json"));
            for (key, value) in [
                ("d_model", width),
                ("d_kv", d_kv.next_multiple_of(unit)),
                ("d_ff", d_ff.next_multiple_of(unit)),
                ("num_heads", encoder_heads),
                ("num_layers", layers),
                ("relative_attention_num_buckets", 4 * quarter),
                ("relative_attention_max_distance", quarter + distance),
            ] {
                config["encoder_config"][key] = value.into();
            }
            for (key, value) in [
                ("hidden_size", json!(width)),
                ("scorer_type", json!(scorer.name())),
                ("pooling_strategy", json!(pooling.name())),
                ("scorer_num_heads", json!(heads)),
                ("scorer_mlp_hidden_size", json!(mlp)),
                ("class_token_pooling", json!(if average { "average" } else { "first" })),
                ("normalize_features", json!(normalize)),
                ("use_lstm", json!(lstm)),
                ("use_segment_embeddings", json!(segments)),
                ("prompt_first", json!(first)),
                ("embed_class_token", json!(embed)),
            ] {
                config[key] = value;
            }
            GliShape { config, fp8, seed }
        },
    )
}

fn gliclass_model(shape: &GliShape) -> GliClass {
    let name = "tokenizer.json";
    let files = [(name.to_owned(), read(&gliclass_tiny().join("mt5").join(name)))];
    let format = if shape.fp8 { Format::Fp8 } else { Format::Bf16 };
    written(shape.config.clone(), format, shape.seed, ModelFiles::from_memory("mt5", files), |files| {
        GliClass::load(files).unwrap_or_else(|e| panic!("{e}"))
    })
}

#[test]
fn gliclass_models_are_within_the_contracts_of_their_steps() {
    let labels = |names: &[&str]| LabelSet::flat(names.iter().copied());
    let requests = [
        ClassifyRequest::new("The lift is stuck again.", labels(&["repair", "sales", "a longer label"])),
        ClassifyRequest::new("ok", labels(&["yes"])),
        ClassifyRequest::new("One word after another. ".repeat(9), labels(&["a", "b", "c", "d", "e"])),
    ];
    let outcome = runner().run(&gliclass_shape(), |shape| {
        let sequences = |cpu: &Engine<CpuBackend, GliClass>| {
            requests.iter().flat_map(|r| cpu.prepare(r).expect("prepared").sequences).collect()
        };
        devices(&|| gliclass_model(&shape), &sequences, shape.fp8)
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
}
