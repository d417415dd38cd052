//! `dikast eval` and `dikast compare`.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{arg, dikast, lines, run};
use serde_json::Value;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn tiny(name: &str) -> PathBuf {
    root("tests/data/gliclass-tiny").join(name)
}

#[test]
fn a_report_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("report");
    let data = root("eval/tests/data/ag_news.csv");
    let more = root("eval/tests/data/eng_Latn/test.tsv");
    let evaluate = || {
        let mut command = dikast();
        command.args(["eval", arg(&tiny("mt5-fp8")), "--reference", arg(&tiny("mt5")), "--backend", "cpu"]);
        command.args([
            "--data",
            arg(&data),
            "--data",
            arg(&more),
            "--noise-backends",
            "cpu",
            "--out",
            arg(&out),
        ]);
        command
    };
    let outcome = run(&mut evaluate());
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    for words in ["FP8 W8A8", "ag_news", "eng_Latn", "agreement", "block.3", "the same bits", "McNemar"] {
        assert!(outcome.out.contains(words), "{words}: {}", outcome.out);
    }
    let results: Value = serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    assert_eq!(results["total"]["examples"], 7);
    assert_eq!(results["sets"][0]["name"], "ag_news");
    assert!(results["blocks"][3]["local"].as_f64().unwrap() > 0.0);
    assert_eq!(lines(&fs::read_to_string(out.join("predictions.jsonl")).unwrap()).len(), 7);
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("<svg"));

    let outcome = run(&mut evaluate());
    assert!(outcome.code == 2 && outcome.err.contains("--overwrite"), "{}", outcome.err);
    let outcome = run(evaluate().args(["--overwrite", "--json"]));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let again: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(again["total"], results["total"], "the same answers give the same figures");
}

#[test]
fn models_are_compared_without_files() {
    let outcome =
        run(dikast().args(["compare", arg(&tiny("mt5-fp8")), arg(&tiny("mt5")), "--backend", "cpu"]));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    for words in ["weights, bytes", "device memory", "median, ms", "built-in", "accumulated", "%"] {
        assert!(outcome.out.contains(words), "{words}: {}", outcome.out);
    }
}

#[test]
fn a_model_alone_is_held_against_what_is_right() {
    let data = root("models/gliclass-mini/eval.jsonl");
    let outcome =
        run(dikast().args(["eval", "gliclass-mini", "--data", arg(&data), "--backend", "cpu", "--json"]));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let results: Value = serde_json::from_str(&outcome.out).unwrap();
    // The model card's 62 of 75.
    let accuracy = results["total"]["scores"]["accuracy"]["value"].as_f64().unwrap();
    assert!((accuracy - 62.0 / 75.0).abs() < 1e-9, "{accuracy}");
    assert!(results["reference"].is_null() && results["total"]["comparison"].is_null());
}

#[test]
fn what_does_not_fit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.jsonl");
    fs::write(&bad, "{\"text\": \"a\", \"labels\": [\"x\"]}\n{").unwrap();
    let data = root("eval/tests/data/ag_news.csv");
    for (args, code, words) in [
        (vec!["eval", "no-such-model", "--data", arg(&data)], 2, "gliclass-mini, clef-mini"),
        (vec!["eval", "gliclass-mini", "--data", "no-such-file"], 2, "no-such-file"),
        (vec!["eval", "gliclass-mini", "--data", arg(&bad)], 2, "bad.jsonl line 2"),
        (vec!["eval", "gliclass-mini"], 2, "--data"),
        (
            vec!["eval", "gliclass-mini", "--reference", "clef-mini", "--data", arg(&data)],
            2,
            "different families",
        ),
        (vec!["eval", "clef-mini", "--data", arg(&data)], 2, "typed questions"),
        (vec!["eval", "gliclass-mini", "--data", arg(&data), "--labels", "a,b"], 2, "AG News has 4"),
        (vec!["compare", "gliclass-mini"], 2, "<B>"),
    ] {
        let outcome = run(dikast().args(&args));
        assert!(
            outcome.code == code && outcome.err.contains(words),
            "{args:?}: {} {}",
            outcome.code,
            outcome.err
        );
    }
}
