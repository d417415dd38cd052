//! Calibration of a small random model.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use dikast_core::Error;
use dikast_core::checkpoint::{Checks, ModelFiles, StoredType, Weights};
use dikast_core::numerics::hadamard::Group;
use dikast_eval::{Example, ReadOptions, read};
use dikast_quantize::{
    Calibrated, Options, Pattern, Rescue, Scheme, Sets, Steps, calibrate, convert, expected_tensors,
};
use safetensors::SafeTensors;

/// Two layers of the fixture, one of each kind: half of the time is enough to see every step.
fn source() -> &'static Path {
    static SOURCE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
        let dir = tempfile::tempdir().expect("a folder");
        two_layers(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/clef-tiny/model"), dir.path());
        dir
    });
    SOURCE.path()
}

/// Copies a model with its third and fourth layers only.
fn two_layers(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("the fixture") {
        let entry = entry.expect("a file");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
    let config = fs::read(from.join("config.json")).expect("there");
    let mut config: serde_json::Value = serde_json::from_slice(&config).expect("JSON");
    config["text_config"]["num_hidden_layers"] = 2.into();
    config["text_config"]["layer_types"] = serde_json::json!(["linear_attention", "full_attention"]);
    fs::write(to.join("config.json"), config.to_string()).expect("written");
    let weights = fs::read(from.join("model.safetensors")).expect("there");
    let weights = SafeTensors::deserialize(&weights).expect("safetensors");
    let kept = weights.iter().filter_map(|(name, tensor)| {
        let Some((path, rest)) = name.split_once(".layers.") else { return Some((name.to_owned(), tensor)) };
        let (layer, rest) = rest.split_once('.')?;
        let layer = layer.parse::<usize>().ok()?.checked_sub(2).filter(|l| *l < 2)?;
        Some((format!("{path}.layers.{layer}.{rest}"), tensor))
    });
    let bytes = safetensors::serialize(kept, None).expect("written");
    fs::write(to.join("model.safetensors"), bytes).expect("written");
}

/// Made-up records: `count` states of words that begin with `first`.
fn examples(first: &str, count: usize) -> Vec<Example> {
    let words = ["river", "stone", "lamp", "garden", "winter", "paper", "engine", "cloud"];
    let line = |i: usize| {
        let state: Vec<&str> =
            (0..6 + 5 * i % 17).map(|j| words[(3 * i + j * (i + 2)) % words.len()]).collect();
        format!(
            "{{\"id\": \"{first}-{i}\", \"state\": \"{first} {i} {}\", \"questions\": {{\"a\": {{\"type\": \"noul\", \
             \"instructions\": \"Is it cold?\"}}, \"b\": {{\"type\": \"choice\", \"instructions\": \"Which?\", \
             \"criteria\": {{\"x\": null, \"y\": \"the other\", \"z\": null}}}}}}}}\n",
            state.join(" ")
        )
    };
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("records.jsonl");
    fs::write(&path, (0..count).map(line).collect::<String>()).expect("written");
    read(&path, &ReadOptions::default()).expect("records")
}

fn options() -> Options {
    Options::new(Scheme::Int8ConvRot { group: Group::new(64).expect("a size") })
}

fn run(target: &Path, options: &Options, steps: &str, sets: Sets<'_>) -> dikast_core::Result<Calibrated> {
    fs::create_dir_all(target).expect("a folder");
    calibrate(source(), target, options, Steps::parse(steps)?, sets, &mut |_| {})
}

fn weights(dir: &Path) -> Weights {
    let files = ModelFiles::open(dir).expect("the folder");
    let expected = expected_tensors(&files).expect("its configuration");
    Weights::open(&files, &expected, Checks::ALL).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn calibrated_codes_are_nearer_to_the_unquantized_model() {
    let dir = tempfile::tempdir().expect("a folder");
    let (calibrate, select, report) = (examples("autumn", 10), examples("spring", 1), examples("summer", 3));
    let sets = Sets { calibrate: &calibrate, select: &select, report: &report };
    let target = dir.path().join("a");
    let done = run(&target, &options(), "all,rescue=1", sets).expect("calibrated");
    let measured = done.measured.expect("a report set");
    let of =
        |c: &dikast_eval::Comparison| (c.logit_l2.expect("logits").mean, c.hidden_l2.expect("hidden").mean);
    let ((naive_logits, naive_hidden), (logits, hidden)) = (of(&measured.naive), of(&measured.calibrated));
    assert!(hidden < 0.9 * naive_hidden, "{hidden} against {naive_hidden}");
    assert!(logits < naive_logits, "{logits} against {naive_logits}");
    assert!(done.rescued.len() <= 1 && done.tokens > 300, "{:?} {}", done.rescued, done.tokens);

    // It loads as it is, with biases, and says what was done.
    let weights = weights(&target);
    let storage = weights.storage("model.language_model.layers.1.mlp.down_proj").expect("there");
    if storage.dtype == StoredType::I8 {
        assert!(storage.bias.is_some() && storage.rotation == Group::new(64));
    }
    let provenance: serde_json::Value =
        serde_json::from_slice(&fs::read(target.join("provenance.json")).expect("there")).expect("JSON");
    assert_eq!(provenance["calibration"]["steps"], "smooth,clip,target,gptq,refit,bias,rescue=1");
    assert_eq!(provenance["calibration"]["report"]["examples"], 3);
    let card = fs::read_to_string(target.join("MODEL_CARD.md")).expect("a card");
    assert!(card.contains("mean relative hidden L2"), "{card}");
}

#[test]
fn answers_to_a_set_held_back_choose_smoothing_and_rescue() {
    let dir = tempfile::tempdir().expect("a folder");
    let (calibrate, report) = (examples("autumn", 10), examples("summer", 3));
    let sets = Sets { calibrate: &calibrate, select: &[], report: &report };
    let mut lines = Vec::new();
    let steps = Steps { search: true, rescue: Rescue::Percent(20), ..Steps::default() };
    let done = dikast_quantize::calibrate(source(), dir.path(), &options(), steps, sets, &mut |line| {
        lines.push(line.to_owned());
    })
    .expect("calibrated");
    assert_eq!((done.calibrate, done.select), (8, 2));
    // Four products a layer.
    assert_eq!(lines.iter().filter(|l| l.contains("smoothed")).count(), 8, "{lines:?}");
    let measured = done.measured.expect("a report set");
    assert!(measured.hidden.value < -0.1 && measured.logits.value < 0.0, "{measured:?}");
    let [low, high] = measured.hidden.interval.expect("several examples");
    assert!(low <= measured.hidden.value && measured.hidden.value <= high);

    // What stays costs no more than what was allowed, and stands in the file as numbers.
    let (all, kept) = numbers(&weights(dir.path()));
    assert!(!done.rescued.is_empty() && kept > 0 && kept * 5 <= all, "{kept} of {all}: {:?}", done.rescued);
    assert!(measured.bytes.1 > measured.bytes.0, "{:?}", measured.bytes);
    let provenance: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("provenance.json")).expect("there")).expect("JSON");
    assert_eq!(provenance["calibration"]["select"]["examples"], 2);
    assert_eq!(provenance["calibration"]["measured"]["tensor_bytes"]["calibrated"], measured.bytes.1);
}

/// Numbers of the layers' projections, and how many of them are no codes.
fn numbers(weights: &Weights) -> (usize, usize) {
    let mut found = (0, 0);
    for (name, tensor) in weights.iter() {
        let kind = name.strip_suffix("_proj.weight").or(name.strip_suffix("_proj_qkv.weight"));
        if kind.or(name.strip_suffix("_proj_z.weight")).is_some_and(|n| n.contains(".layers.")) {
            let size: usize = tensor.shape.iter().product();
            found.0 += size;
            found.1 += if tensor.dtype == StoredType::I8 { 0 } else { size };
        }
    }
    found
}

#[test]
fn the_same_examples_give_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a folder");
    let set = examples("autumn", 2);
    let sets = Sets { calibrate: &set, select: &[], report: &[] };
    for name in ["a", "b"] {
        run(&dir.path().join(name), &options(), "smooth,gptq,bias", sets).expect("calibrated");
    }
    for name in ["model.safetensors", "provenance.json", "MODEL_CARD.md", "SHA256SUMS"] {
        let read = |d: &str| fs::read(dir.path().join(d).join(name)).expect(name);
        assert!(read("a") == read("b"), "{name}");
    }
}

#[test]
fn without_a_step_the_codes_are_the_naive_ones() {
    let dir = tempfile::tempdir().expect("a folder");
    let (plain, none) = (dir.path().join("plain"), dir.path().join("none"));
    let set = examples("autumn", 2);
    let sets = Sets { calibrate: &set, select: &[], report: &[] };
    let keep = vec![Pattern::new("*.layers.0.*").expect("a pattern")];
    let options = Options { keep, ..options() };
    run(&none, &options, "none", sets).expect("written");
    fs::create_dir(&plain).expect("a folder");
    convert(source(), &plain, options, &mut |_, _| {}).expect("converted");
    let all = |w: &Weights| -> Vec<(String, Vec<u8>)> {
        w.iter().map(|(n, t)| (n.to_owned(), t.bytes.to_vec())).collect()
    };
    assert_eq!(all(&weights(&plain)), all(&weights(&none)));
}

#[test]
fn kept_matrices_follow_the_smoothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (set, report) = (examples("autumn", 5), examples("summer", 2));
    let keep = ["*.layers.1.mlp.*", "*.v_proj", "*.layers.0.linear_attn.*"];
    let keep = keep.map(|p| Pattern::new(p).expect("a pattern")).to_vec();
    let sets = Sets { calibrate: &set, select: &[], report: &report };
    let done = run(dir.path(), &Options { keep, ..options() }, "smooth", sets).expect("calibrated");
    let measured = done.measured.expect("a report set");
    // A scale that one side lacks would turn the answers over.
    assert!(
        measured.calibrated.hidden_l2.expect("hidden").mean
            < 1.2 * measured.naive.hidden_l2.expect("hidden").mean
    );
}

#[test]
fn sets_and_models_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (a, b) = (examples("autumn", 3), examples("spring", 3));
    let refused = |options: &Options, steps: &str, sets: Sets<'_>, words: &[&str]| {
        let error = run(&dir.path().join("x"), options, steps, sets).expect_err("refused");
        let text = error.to_string();
        assert!(matches!(error, Error::InvalidRequest { .. }), "{text}");
        assert!(words.iter().all(|w| text.contains(w)), "{words:?} not in {text}");
        assert!(fs::read_dir(dir.path().join("x")).expect("there").next().is_none(), "nothing is written");
    };
    // The same state in other letters, with another question, is the same example.
    let mut twin = b.clone();
    if let dikast_eval::Request::Decide(request) = &mut twin[1].request {
        let state = request.state.to_pretty_text().to_uppercase();
        request.state = dikast_core::request::Json::from(state.trim_matches('"'));
        request.questions.truncate(1);
    }
    let sets = Sets { calibrate: &a, select: &b, report: &twin[1..2] };
    refused(&options(), "all", sets, &["report", "spring-1", "select"]);
    refused(&options(), "all", Sets { calibrate: &a, select: &[], report: &a }, &["report", "autumn-0"]);
    refused(
        &options(),
        "all",
        Sets { calibrate: &[], select: &[], report: &b },
        &["calibrate", "at least one"],
    );
    refused(&options(), "rescue=1", Sets { calibrate: &a, select: &[], report: &b }, &["select"]);
    refused(&options(), "gtpq", Sets { calibrate: &a, select: &[], report: &b }, &["gtpq", "gptq"]);
    let fp8 = Options::new(Scheme::Fp8W8A8);
    refused(&fp8, "all", Sets { calibrate: &a, select: &[], report: &[] }, &["fp8-w8a8", "int8"]);
    let wide = Options::new(Scheme::Int8ConvRot { group: Group::DEFAULT });
    refused(&wide, "all", Sets { calibrate: &a, select: &[], report: &[] }, &["group-size"]);
}
