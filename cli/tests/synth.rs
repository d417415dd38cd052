//! `dikast synth`, and what `inspect` says of its output.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Outcome, arg, dikast, run};
use serde_json::Value;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/gliclass-tiny/mt5")
}

fn synth(like: &Path, out: &Path, more: &[&str]) -> Outcome {
    run(dikast().args(["synth", "--like", arg(like), "--quant", "fp8", arg(out)]).args(more))
}

#[test]
fn the_shapes_of_an_existing_model() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("made/here");
    let outcome = synth(&fixture(), &out, &["--seed", "7"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let bytes = fs::metadata(out.join("model.safetensors")).unwrap().len();
    assert!(bytes > 100_000 && outcome.out.contains("parameters"), "{}", outcome.out);
    assert_eq!(
        fs::read(fixture().join("tokenizer.json")).unwrap(),
        fs::read(out.join("tokenizer.json")).unwrap()
    );

    let facts = run(dikast().args(["inspect", "--format", "json", arg(&out)]));
    let facts: Value = serde_json::from_str(&facts.out).unwrap();
    assert_eq!((&facts["synthetic"]["seed"], &facts["synthetic"]["like"]), (&7.into(), &"mt5".into()));
    let listing = run(dikast().arg("inspect").arg(&out));
    assert!(listing.out.contains("synthetic weights"), "{}", listing.out);
    let real = run(dikast().arg("inspect").arg(fixture()));
    assert!(!real.out.contains("synthetic"));
    let answer = run(dikast().args(["classify", "--model", arg(&out), "--text", "a", "--labels", "b,c"]));
    assert_eq!(answer.code, 0, "{}", answer.err);
}

#[test]
fn an_existing_folder_is_only_replaced_when_asked_and_when_it_is_ours() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    assert_eq!(synth(&fixture(), &out, &[]).code, 0);
    let first = fs::read(out.join("model.safetensors")).unwrap();
    let again = synth(&fixture(), &out, &["--seed", "2"]);
    assert!(again.code == 2 && again.err.contains("--overwrite"), "{}", again.err);
    assert_eq!(fs::read(out.join("model.safetensors")).unwrap(), first);
    assert_eq!(synth(&fixture(), &out, &["--seed", "2", "--overwrite"]).code, 0);
    assert_ne!(fs::read(out.join("model.safetensors")).unwrap(), first);
    fs::write(out.join("notes.txt"), "mine").unwrap();
    assert_eq!(synth(&fixture(), &out, &["--overwrite"]).code, 2);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_done_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let unknown = synth(Path::new("gliclass-unheard-of"), &out, &[]);
    assert!(unknown.code == 2 && unknown.err.contains("gliclass-multilang-ultra"), "{}", unknown.err);
    let deberta = synth(&fixture().join("../variants/deberta-simple-avg"), &out, &[]);
    assert!(deberta.code == 3 && deberta.err.contains("deberta"), "{}", deberta.err);
    let empty = synth(dir.path(), &out, &[]);
    assert!(empty.code == 3 && empty.err.contains("config.json"), "{}", empty.err);
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(synth(&fixture(), &file, &[]).code, 2);
    assert_eq!(synth(&fixture(), &file.join("below"), &[]).code, 2);
    assert_eq!(run(dikast().args(["synth", "--like", "x", "--quant", "int3", "y"])).code, 2);
    assert!(!out.exists() && fs::read_dir(dir.path()).unwrap().count() == 1);
}

/// Nobody can make a folder there, not even root.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_without_write_permission_fails_and_leaves_nothing() {
    let outcome = synth(&fixture(), Path::new("/proc/dikast-synth"), &[]);
    assert!(outcome.code == 1 && outcome.err.contains("/proc/"), "{}", outcome.err);
}
