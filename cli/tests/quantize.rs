//! `dikast quantize`, and what `inspect` says of CLEF models.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Outcome, arg, dikast, run};
use serde_json::Value;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/clef-tiny/model")
}

fn quantize(source: &Path, out: &Path, more: &[&str]) -> Outcome {
    run(dikast().args(["quantize", arg(source), arg(out), "--scheme", "int8-convrot"]).args(more))
}

fn inspect(dir: &Path) -> Value {
    let outcome = run(dikast().args(["inspect", "--format", "json", arg(dir)]));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    serde_json::from_str(&outcome.out).unwrap()
}

/// Bytes and tensors of a part.
fn part(facts: &Value, name: &str) -> (u64, u64) {
    let parts = facts["bytes"]["parts"].as_array().unwrap();
    let part = parts.iter().find(|p| p["part"] == name).unwrap();
    (part["bytes"].as_u64().unwrap(), part["tensors"].as_u64().unwrap())
}

#[test]
fn a_release_becomes_a_smaller_one() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("made/here");
    let outcome = quantize(&fixture(), &out, &["--group-size", "64"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert!(outcome.out.contains("50 matrices") && outcome.out.contains("sums match"), "{}", outcome.out);

    let (before, after) = (inspect(&fixture()), inspect(&out));
    assert_eq!((&before["quantization"], &after["quantization"]), (&"BF16".into(), &"INT8 ConvRot".into()));
    assert_eq!(before["parameters"], after["parameters"]);
    let (bytes, tensors) = part(&before, "large projections");
    assert_eq!(part(&after, "large projections"), (bytes / 2, tensors));
    assert_eq!((part(&after, "scales and biases").1, part(&before, "scales and biases").1), (50, 0));
    for name in ["embedding", "LM head", "rest of the decoder", "vision tower", "decision head"] {
        assert_eq!(part(&after, name), part(&before, name), "{name}");
    }
    let listing = run(dikast().arg("inspect").arg(&out));
    for words in ["CLEF", "Gated DeltaNet", "INT8 ConvRot", "decision head"] {
        assert!(listing.out.contains(words), "{words}: {}", listing.out);
    }
}

#[test]
fn nothing_is_replaced_and_nothing_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("config.json"), "mine").unwrap();
    let outcome = quantize(&fixture(), &out, &["--group-size", "64"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("not empty"), "{}", outcome.err);
    assert_eq!(fs::read_to_string(out.join("config.json")).unwrap(), "mine");

    // The default group does not divide these rows.
    let outcome = quantize(&fixture(), &dir.path().join("a"), &[]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("--group-size") && outcome.err.contains("128"), "{}", outcome.err);
    let outcome = quantize(&dir.path().join("missing"), &dir.path().join("a"), &[]);
    assert_eq!(outcome.code, 2);
    let other = fixture().join("../../gliclass-tiny/mt5");
    let outcome = quantize(&other, &dir.path().join("a"), &[]);
    assert!(outcome.code == 2 && outcome.err.contains("no matrices"), "{}", outcome.err);
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["out"]);
}

#[test]
fn a_synthetic_model_of_the_same_shapes() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let more = ["--quant", "int8-convrot", "--group-size", "16", "--seed", "5"];
    let outcome = run(dikast().args(["synth", "--like", arg(&fixture()), arg(&out)]).args(more));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let facts = inspect(&out);
    assert_eq!((&facts["synthetic"]["seed"], &facts["quantization"]), (&5.into(), &"INT8 ConvRot".into()));
    assert_eq!(facts["parameters"], inspect(&fixture())["parameters"]);
    // As any other, it may be replaced on request.
    let outcome =
        run(dikast().args(["synth", "--like", arg(&fixture()), arg(&out), "--overwrite"]).args(more));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let outcome = run(dikast().args([
        "synth",
        "--like",
        arg(&fixture()),
        "--quant",
        "fp8",
        arg(&dir.path().join("b")),
    ]));
    assert!(outcome.code == 2 && outcome.err.contains("int8-convrot"), "{}", outcome.err);
}

#[test]
fn the_other_schemes() {
    let dir = tempfile::tempdir().unwrap();
    let mt5 = fixture().join("../../gliclass-tiny/mt5");
    let out = dir.path().join("fp8");
    let outcome = run(dikast().args(["quantize", arg(&mt5), arg(&out), "--scheme", "fp8-w8a8"]));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert!(outcome.out.contains("28 matrices"), "{}", outcome.out);
    assert_eq!(inspect(&out)["quantization"], "FP8 W8A8");
    let out = dir.path().join("int8");
    let outcome = run(dikast().args([
        "quantize",
        arg(&fixture()),
        arg(&out),
        "--scheme",
        "int8",
        "--keep",
        "*.layers.0.*",
    ]));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(inspect(&out)["quantization"], "BF16+INT8");

    for (more, words) in [
        (&["--scheme", "int8", "--group-size", "64"][..], "only int8-convrot has groups"),
        (&["--scheme", "int8", "--keep", "*.gate_proj"], "run as one product"),
        (&["--scheme", "fp8-w8a8"], "no matrices that may be FP8"),
        (&["--scheme", "int8", "--keep", ""], "--keep"),
    ] {
        let out = dir.path().join("refused");
        let outcome = run(dikast().args(["quantize", arg(&fixture()), arg(&out)]).args(more));
        assert!(outcome.code == 2 && outcome.err.contains(words), "{more:?}: {}", outcome.err);
        assert!(!out.exists());
    }
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn calibration_is_refused_by_name_where_it_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    let record = |id: usize, state: &str| {
        format!(
            "{{\"id\": \"{id}\", \"state\": \"{state}\", \"questions\": {{\"q\": {{\"type\": \"noul\", \
             \"instructions\": \"Is it cold?\"}}}}}}\n"
        )
    };
    let file = |name: &str, text: String| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        arg(&path).to_owned()
    };
    let few = file("few.jsonl", record(1, "a lamp") + &record(2, "two rivers"));
    let same = file("same.jsonl", record(9, "Two  RIVERS!"));
    let empty = file("empty.jsonl", String::new());
    let broken = file("broken.jsonl", "{\"state\": 1}\n".to_owned());
    let missing = arg(&dir.path().join("missing.jsonl")).to_owned();
    let calibrate = |file: &str, more: &[&str]| -> Vec<String> {
        ["--group-size", "64", "--calibrate", file].iter().chain(more).map(|s| (*s).to_owned()).collect()
    };
    let cases: [(Vec<String>, &[&str]); 14] = [
        (calibrate(&few, &["--recipe", "gtpq"]), &["recipe", "gtpq", "gptq", "rescue=P%"]),
        (calibrate(&few, &["--recipe", "rescue=80%"]), &["recipe", "rescue=80%", "50%"]),
        (calibrate(&few, &["--recipe", "rescue=-3"]), &["recipe", "rescue=-3", "1024"]),
        (calibrate(&few, &["--recipe", "search"]), &["recipe", "search", "smooth"]),
        (calibrate(&few, &[]), &["select", "2 of the calibration set"]),
        (calibrate(&few, &["--recipe", "gptq", "--report", &same]), &["report", "calibrate set", "same"]),
        (calibrate(&few, &["--select", &same]), &["select", "calibrate set", "same"]),
        (calibrate(&few, &["--recipe", "gptq", "--select", &same, "--report", &same]), &["same"]),
        (calibrate(&empty, &[]), &["empty.jsonl"]),
        (calibrate(&broken, &[]), &["broken.jsonl", "1"]),
        (calibrate(&missing, &[]), &["missing.jsonl"]),
        (calibrate(&few, &["--requantize"]), &["--requantize", "--calibrate"]),
        (vec!["--report".to_owned(), few.clone()], &["--calibrate"]),
        (vec!["--recipe".to_owned(), "gptq".to_owned()], &["--calibrate"]),
    ];
    let out = dir.path().join("refused");
    for (more, words) in cases {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let outcome = quantize(&fixture(), &out, &more);
        assert_eq!(outcome.code, 2, "{more:?}: {}", outcome.err);
        assert!(words.iter().all(|w| outcome.err.contains(w)), "{words:?} of {more:?}: {}", outcome.err);
        assert!(!out.exists(), "{more:?}");
    }
}
