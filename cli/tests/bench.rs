//! `dikast bench`: what it prints and writes; no test asserts a time.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::{Outcome, arg, dikast, run};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/gliclass-tiny").join(name)
}

/// A short benchmark of a tiny model.
fn bench(model: &str, more: &[&str]) -> Outcome {
    let model = fixture(model);
    let sizes = ["--tokens", "40,64", "--batch", "1,3", "--warmup", "1", "--runs", "3", "--labels", "4"];
    run(dikast().args(["bench", "--model", arg(&model)]).args(sizes).args(more))
}

#[test]
fn every_size_has_its_figures() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    std::fs::write(&json, vec![b'x'; 100_000]).unwrap();
    for model in ["mt5", "mt5-fp8"] {
        let outcome = bench(model, &["--profile", "--json", arg(&json)]);
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        assert!(outcome.out.contains("tokens/s") && outcome.out.contains("Attention"), "{}", outcome.out);
        let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        assert_eq!((&report["schema"], &report["model"]["name"]), (&1.into(), &model.into()));
        for ceiling in
            ["copy_gb_per_second", "product_gflop_per_second", "quantized_product_gflop_per_second"]
        {
            assert!(report["ceilings"][ceiling].as_f64().unwrap() > 0.0);
        }
        let results = report["results"].as_array().unwrap();
        let sizes: Vec<_> =
            results.iter().map(|c| (c["tokens"].as_u64().unwrap(), c["batch"].as_u64().unwrap())).collect();
        assert_eq!(sizes, [(40, 1), (40, 3), (64, 1), (64, 3)]);
        for cell in results {
            assert_eq!(cell["forward"]["runs"], 3);
            let (min, p95) = (&cell["forward"]["min_ms"], &cell["forward"]["p95_ms"]);
            assert!(min.as_f64().unwrap() > 0.0 && min.as_f64() <= p95.as_f64());
            assert_eq!(cell["request"].is_object(), cell["batch"] == 1);
            let steps = cell["steps"].as_array().unwrap();
            let share: f64 = steps.iter().map(|s| s["share"].as_f64().unwrap()).sum();
            assert!((share - 1.0).abs() < 1e-9);
            assert!(steps.iter().all(|s| s["reached"].as_f64().unwrap() > 0.0));
        }
        // Four blocks of 128 with an inner width of 128 and 320 in the feed-forward, 40 tokens.
        let encoder = 2.0 * 40.0 * 4.0 * (4.0 * 128.0 * 128.0 + 3.0 * 128.0 * 320.0) * 1e-9;
        let gflop = results[0]["gflop"].as_f64().unwrap();
        assert!(gflop > encoder && gflop < 1.5 * encoder, "{gflop} {encoder}");
    }
}

#[test]
fn ratios_to_an_earlier_run() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("before.json");
    assert_eq!(bench("mt5", &["--json", arg(&json)]).code, 0);
    let outcome = bench("mt5", &["--compare", arg(&json)]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert!(outcome.out.contains("compared with mt5") && outcome.out.contains('×'), "{}", outcome.out);
    assert!(!outcome.out.contains("another machine"), "{}", outcome.out);
}

#[test]
fn the_requests_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (file, json) = (dir.path().join("requests.jsonl"), dir.path().join("out.json"));
    let row = |text: &str| format!("{{\"id\": 1, \"text\": \"{text}\", \"labels\": [\"a\", \"b\"]}}\n");
    std::fs::write(&file, [row("one"), row("two"), "\n".to_owned(), row("three")].concat()).unwrap();
    let outcome = run(dikast().env("DIKAST_MODEL", fixture("mt5")).args([
        "bench",
        "--requests",
        arg(&file),
        "--batch",
        "1,2",
        "--runs",
        "2",
        "--json",
        arg(&json),
    ]));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let calls: Vec<_> = [0, 1].map(|i| report["requests"][i]["call"]["runs"].as_u64().unwrap()).into();
    assert_eq!(calls, [6, 4]);
    assert_eq!(report["requests"][0]["requests"], 3);

    std::fs::write(&file, [row("one"), "{\"text\": 1}\n".to_owned()].concat()).unwrap();
    for bad in [file, dir.path().join("none"), json] {
        let outcome = run(dikast().args(["bench", "--requests", arg(&bad)]));
        assert_eq!(outcome.code, 2, "{}", outcome.err);
    }
}

#[test]
fn what_cannot_be_measured_is_refused_at_once() {
    let refused = |more: &[&str], word: &str| {
        let outcome = bench("mt5", more);
        assert_eq!(outcome.code, 2, "{more:?}: {}", outcome.err);
        assert!(outcome.err.contains(word), "{more:?}: {}", outcome.err);
    };
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.json");
    std::fs::write(&other, "{}").unwrap();
    refused(&["--compare", arg(&other)], "other.json");
    refused(&["--compare", arg(&dir.path().join("none"))], "none");
    let direct = |args: &[&str]| run(dikast().arg("bench").args(args));
    let short = direct(&["--tokens", "20"]);
    assert!(short.code == 2 && short.err.contains("at least 27"), "{}", short.err);
    assert_eq!(direct(&["--tokens", "1000000", "--batch", "1000000"]).code, 2);
    for bad in [["--tokens", "0"], ["--batch", "1,x"], ["--runs", "0"], ["--labels", "0"]] {
        assert_eq!(direct(&bad).code, 2, "{bad:?}");
    }
    assert_eq!(direct(&["--json", arg(dir.path())]).code, 1);
}
