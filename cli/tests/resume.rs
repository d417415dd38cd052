//! Interrupted batches continue without a repeated or a lost row.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{arg, classify};

/// Rows of different lengths, a bad one now and then.
fn input(rows: usize) -> String {
    let row = |i: usize| match i % 7 {
        3 => "not a row\n".to_owned(),
        n => format!("{{\"id\": {i}, \"text\": \"row {i}{}\"}}\n", " and more".repeat(n)),
    };
    (0..rows).map(row).collect()
}

fn args<'a>(input: &'a Path, output: &'a Path) -> [&'a str; 7] {
    ["--input", arg(input), "--output", arg(output), "--labels", "weather,sport", "--quiet"]
}

#[test]
fn a_cut_output_becomes_the_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("in.jsonl");
    std::fs::write(&source, input(12)).unwrap();
    for name in ["out.jsonl", "out.csv"] {
        let output = dir.path().join(name);
        assert_eq!(classify(&args(&source, &output), b"").code, 5);
        let whole = std::fs::read(&output).unwrap();
        let line_end = |n: usize| {
            whole.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(n).map(|(i, _)| i + 1).unwrap()
        };
        // Empty, in the first record, between records, in the middle of one, all but the last byte, finished.
        for cut in [0, 3, line_end(4), line_end(4) + 20, whole.len() - 1, whole.len()] {
            std::fs::write(&output, &whole[..cut]).unwrap();
            // A finished run leaves no word of what was asked.
            let outcome = classify(&[&args(&source, &output)[..], &["--resume", "--force"]].concat(), b"");
            assert_eq!(outcome.code, 5, "failed rows of the earlier run count: {}", outcome.err);
            assert!(std::fs::read(&output).unwrap() == whole, "{name} cut at {cut}");
        }
    }
}

#[test]
fn a_killed_run_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let (source, whole, output) =
        (dir.path().join("in.jsonl"), dir.path().join("whole.jsonl"), dir.path().join("out.jsonl"));
    std::fs::write(&source, input(700)).unwrap();
    assert_eq!(classify(&args(&source, &whole), b"").code, 5);

    let mut child = Command::new(common::PROGRAM)
        .arg("classify")
        .args(args(&source, &output))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    // Killed (SIGKILL) as soon as something is written.
    while std::fs::metadata(&output).map_or(0, |m| m.len()) == 0
        && started.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let written = std::fs::read(&output).unwrap();
    let full = std::fs::read(&whole).unwrap();
    assert!(!written.is_empty() && written.len() < full.len() && full.starts_with(&written));
    let sidecar = dir.path().join("out.jsonl.dikast.json");

    // Another question, another input, or no word of either: refused, and nothing is touched.
    let resume = |more: &[&str]| {
        let args: Vec<&str> = args(&source, &output).into_iter().filter(|a| *a != "weather,sport").collect();
        let labels = if more.contains(&"--labels") { &[][..] } else { &["--labels", "weather,sport"] };
        let args: Vec<&str> = args.into_iter().filter(|a| *a != "--labels").collect();
        classify(&[&args[..], labels, &["--resume"], more].concat(), b"")
    };
    for (more, named) in [
        (
            &["--labels", "weather,food"][..],
            "--labels ([\"weather\",\"sport\"] then, [\"weather\",\"food\"] now)",
        ),
        (&["--multi-label", "--threshold", "0.25"], "--threshold (not given then, 0.25 now)"),
        (&["--prompt", "What is it about?"], "--prompt"),
        (&["--chunk"], "--chunk"),
        (&["--truncate", "text"], "--truncate (refuse then, text now)"),
        (&["--format", "csv"], "--format (jsonl then, csv now)"),
        (&["--top-k", "1"], "--top-k"),
        (&["--text-field", "id"], "--text-field"),
    ] {
        let refused = resume(more);
        assert_eq!(refused.code, 2, "{more:?}");
        assert!(refused.err.contains("other settings") && refused.err.contains(named), "{}", refused.err);
        assert!(refused.err.contains("--force"), "{}", refused.err);
    }
    let rows = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, rows.replacen("row 0", "row O", 1)).unwrap();
    let changed = resume(&[]);
    assert!(changed.code == 2 && changed.err.contains("has changed"), "{}", changed.err);
    std::fs::write(&source, &rows).unwrap();
    let known = std::fs::read(&sidecar).unwrap();
    std::fs::remove_file(&sidecar).unwrap();
    let unknown = resume(&[]);
    assert!(unknown.code == 2 && unknown.err.contains("is not known"), "{}", unknown.err);
    std::fs::write(&sidecar, known).unwrap();
    assert!(std::fs::read(&output).unwrap() == written);

    let outcome = classify(&[&args(&source, &output)[..], &["--resume"]].concat(), b"");
    assert_eq!(outcome.code, 5, "{}", outcome.err);
    assert!(std::fs::read(&output).unwrap() == full);
    assert!(!sidecar.exists(), "a finished output stands alone");

    // Once more: nothing is left to do, and nothing is done.
    let again: Vec<&str> = args(&source, &output).into_iter().filter(|a| *a != "--quiet").collect();
    let again = classify(&[&again[..], &["--resume"]].concat(), b"");
    assert_eq!(again.code, 5, "{}", again.err);
    assert!(
        again.err.contains("no row was left to answer") && !again.err.contains("rows/s"),
        "{}",
        again.err
    );
    assert!(std::fs::read(&output).unwrap() == full && !sidecar.exists());
}
