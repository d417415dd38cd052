//! `dikast parity` and `dikast doctor`.
#![allow(clippy::unwrap_used)]

mod common;

use common::dikast;

#[test]
fn the_definition_agrees_with_itself_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("r.json"), folder.path().join("r.html"));
    let run = dikast()
        .args(["parity", "--backend", "cpu", "--strict", "--json"])
        .arg(&json)
        .arg("--html")
        .arg(&html)
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(text.matches("pass: every step is within its contract").count(), 2, "{text}");
    let reports: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let names: Vec<&str> = reports.as_array().unwrap().iter().map(|r| r["model"].as_str().unwrap()).collect();
    assert_eq!(names, ["gliclass-mini", "clef-mini"]);
    for report in reports.as_array().unwrap() {
        assert_eq!((&report["pass"], &report["batch_invariant"]), (&true.into(), &true.into()));
        assert!(report["steps"].as_array().unwrap().iter().all(|s| s["worst"] == 0.0));
    }
    assert!(std::fs::read_to_string(html).unwrap().contains("gliclass-mini on cpu"));
    assert!(std::fs::read_to_string(folder.path().join("r-2.html")).unwrap().contains("clef-mini on cpu"));
}

#[test]
fn doctor_names_every_backend() {
    let run = dikast().arg("doctor").output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success());
    for part in ["\ncpu: ", "\ncuda: ", "\nwgpu: ", "--backend auto takes"] {
        assert!(text.contains(part), "{text}");
    }
}
