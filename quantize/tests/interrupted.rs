//! Runs that end before their time: what is left does not load, and the same call goes on from there.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use dikast_core::checkpoint::ModelFiles;
use dikast_core::numerics::hadamard::Group;
use dikast_core::{Error, Result};
use dikast_quantize::{Options, Report, Scheme, convert, expected_tensors, finished_files, is_output};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/clef-tiny/model")
}

fn options(group: usize) -> Options {
    let scheme = Scheme::Int8ConvRot { group: Group::new(group).expect("a size") };
    Options { shard_bytes: 400_000, ..Options::new(scheme) }
}

fn run(target: &Path, options: Options) -> Result<Report> {
    fs::create_dir_all(target).expect("a folder");
    convert(&source(), target, options, &mut |_, _| {})
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = fs::read_dir(dir).expect("the folder").map(|e| e.expect("a file"));
    all.map(|e| (e.file_name().into_string().expect("a name"), fs::read(e.path()).unwrap_or_default()))
        .collect()
}

/// Nothing takes the folder for a model.
fn does_not_load(dir: &Path) {
    let opened = ModelFiles::open(dir).and_then(|files| expected_tensors(&files).map(drop));
    assert!(opened.is_err(), "{:?}", files(dir).keys());
}

#[test]
fn a_full_disk_leaves_nothing_that_loads_and_the_next_run_goes_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let (whole, broken) = (dir.path().join("whole"), dir.path().join("broken"));
    let report = run(&whole, options(16)).expect("converted");
    assert_eq!(report.resumed, 0);

    fs::create_dir(&broken).expect("a folder");
    let full = report.files.iter().map(|f| f.name.as_str()).rfind(|n| n.starts_with("model-0"));
    let full = full.expect("shards");
    symlink("/dev/full", broken.join(format!("{full}.part"))).expect("linked");
    let error = run(&broken, options(16)).expect_err("the disk is full");
    assert!(matches!(&error, Error::Io { path, .. } if path.contains(full)), "{error}");
    does_not_load(&broken);
    let left = files(&broken);
    assert!(left.keys().all(|n| is_output(n) && !n.ends_with(".part") && n != full), "{:?}", left.keys());
    let done = finished_files(&broken);
    assert!(done > 0, "{:?}", left.keys());

    // The same call needs only the rest, and the bytes are those of a run without a break.
    let report = run(&broken, options(16)).expect("converted");
    assert_eq!(report.resumed, done);
    assert!(files(&broken) == files(&whole), "{:?}", files(&broken).keys());
    assert!(report.errors.len() == 50);

    // Another call takes nothing of it.
    fs::create_dir(dir.path().join("other")).expect("a folder");
    symlink("/dev/full", dir.path().join("other").join(format!("{full}.part"))).expect("linked");
    run(&dir.path().join("other"), options(16)).expect_err("the disk is full");
    let report = run(&dir.path().join("other"), options(64)).expect("converted");
    assert_eq!(report.resumed, 0);
    let fresh = dir.path().join("fresh");
    run(&fresh, options(64)).expect("converted");
    assert!(files(&dir.path().join("other")) == files(&fresh));
}

#[test]
fn a_single_file_is_there_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a folder");
    symlink("/dev/full", dir.path().join("model.safetensors.part")).expect("linked");
    let scheme = options(16).scheme;
    run(dir.path(), Options::new(scheme)).expect_err("the disk is full");
    does_not_load(dir.path());
    assert!(!dir.path().join("model.safetensors").exists());
}

#[test]
fn a_damaged_note_is_no_help_and_no_harm() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("out");
    fs::create_dir(&out).expect("a folder");
    for note in [
        "",
        "{",
        "[1]",
        "{\"identity\": \"x\", \"files\": {\"/etc/passwd\": {\"bytes\": 1, \"digest\": \"\", \"errors\": []}}}",
    ] {
        fs::write(out.join("progress.json"), note).expect("written");
        assert_eq!(run(&out, options(16)).expect("converted").resumed, 0);
    }
    assert!(Path::new("/etc/passwd").exists());
}
