//! `dikast inspect`, completions and manual pages.
#![allow(clippy::unwrap_used)]

mod common;

use common::{dikast, run};
use serde_json::Value;

#[test]
fn facts_of_the_built_in_model() {
    let outcome = run(dikast().args(["inspect", "--format", "json", "--digest"]));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let facts: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(facts["name"], "gliclass-mini");
    assert_eq!(facts["architecture"]["layers"], 6);
    let parts = facts["bytes"]["parts"].as_array().unwrap();
    let sum: u64 = parts.iter().map(|p| p["bytes"].as_u64().unwrap()).sum();
    assert_eq!(facts["bytes"]["total"], sum);
    assert_eq!(facts["dtypes"][0]["dtype"], "BF16");
    assert_eq!(facts["parameters"].as_u64().unwrap() * 2, sum);
    assert!(facts["memory"][0]["activations"].as_u64().unwrap() > 1 << 20);
    assert_eq!(facts["memory"][2]["built_in"], false);
    assert_eq!(facts["digest"].as_str().unwrap().len(), 64);
    assert!(facts.get("graph").is_none());
}

#[test]
fn the_listing_and_the_graph() {
    let plain = run(dikast().arg("inspect"));
    assert_eq!(plain.code, 0, "{}", plain.err);
    for heading in ["Architecture", "Weights", "Memory", "Tokenizer", "Files"] {
        assert!(plain.out.contains(heading), "{}", plain.out);
    }
    assert!(!plain.out.contains('\u{1b}') && !plain.out.contains("\nGraph"));
    assert!(!plain.out.lines().any(|l| l.contains(" 1 tensors")), "{}", plain.out);
    let graph = run(dikast().args(["inspect", "--graph"]));
    assert!(graph.out.contains("\nGraph") && graph.out.contains("output"), "{}", graph.out);
}

#[test]
fn a_folder_without_a_model_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), "{").unwrap();
    for path in [dir.path().to_owned(), dir.path().join("none"), dir.path().join("config.json")] {
        let outcome = run(dikast().arg("inspect").arg(&path));
        assert_eq!(outcome.code, 3, "{}", outcome.err);
    }
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let outcome = run(dikast().args(["completions", shell]));
        assert_eq!(outcome.code, 0);
        assert!(outcome.out.contains("multi-label"), "{shell}");
    }
    assert_eq!(run(dikast().args(["completions", "none"])).code, 2);
}

#[test]
fn manual_pages() {
    let page = run(dikast().arg("man"));
    assert!(page.code == 0 && page.out.contains(".TH dikast"), "{}", page.out);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("man1");
    assert_eq!(run(dikast().arg("man").arg("--dir").arg(&dir)).code, 0);
    let text = std::fs::read_to_string(dir.join("dikast-classify.1")).unwrap();
    assert!(text.contains("threshold") && text.contains(".SH EXIT STATUS\n"));
    assert!(!text.contains("EXTRA") && text.contains("\\-\\-text\\fR \\fITEXT\\fR"), "{text}");
    let examples = text.split(".SH EXAMPLES\n.nf\n").nth(1).unwrap().split(".fi").next().unwrap();
    assert!(examples.lines().count() >= 5 && examples.lines().all(|l| l.contains("dikast")), "{examples}");
}

#[test]
fn help_works_and_bare_calls_are_refused() {
    assert_eq!(run(dikast().arg("--help")).code, 0);
    assert_eq!(run(dikast().args(["classify", "--help"])).code, 0);
    assert_eq!(run(dikast().arg("--version")).code, 0);
    assert_eq!(run(&mut dikast()).code, 2);
    assert_eq!(run(dikast().arg("clasify")).code, 2);
}
