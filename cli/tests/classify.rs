//! `dikast classify` for one text, with the built-in model.
#![allow(clippy::unwrap_used)]

mod common;

use common::{arg, classify, dikast, run};
use serde_json::Value;

const TEXT: &str = "The battery of this phone died after a week and nobody answers my mails.";
const LABELS: &str = "complaint,praise,cooking recipe";

fn json(args: &[&str], stdin: &[u8]) -> Value {
    let outcome = classify(args, stdin);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    serde_json::from_str(&outcome.out).unwrap()
}

fn names(answer: &Value) -> Vec<&str> {
    answer["labels"].as_array().unwrap().iter().map(|l| l["label"].as_str().unwrap()).collect()
}

#[test]
fn json_has_the_documented_fields() {
    let answer = json(&["--text", TEXT, "--labels", LABELS, "--format", "json"], b"");
    let keys: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["model", "backend", "mode", "labels", "tokens", "dropped_text_tokens", "cut_labels"]);
    assert_eq!(answer["model"], "gliclass-mini");
    assert_eq!(answer["backend"], "cpu");
    assert_eq!(answer["mode"], "single-label");
    let labels = answer["labels"].as_array().unwrap();
    assert_eq!(labels.len(), 3);
    let sum: f64 = labels.iter().map(|l| l["score"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-5);
    assert_eq!(labels.iter().filter(|l| l["chosen"] == true).count(), 1);
    assert!(labels[0]["chosen"] == true && labels[0]["logit"].is_number());
    assert!(answer["tokens"].as_u64().unwrap() > 10);
}

#[test]
fn every_way_to_give_the_text_gives_the_same_answer() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text.txt");
    std::fs::write(&file, format!("\u{FEFF}{TEXT}\r\n")).unwrap();
    let base = ["--labels", LABELS, "--format", "jsonl"];
    let given = json(&[&base[..], &["--text", TEXT]].concat(), b"");
    let piped = format!("{TEXT}\n");
    assert_eq!(given, json(&[&base[..], &["--file", arg(&file)]].concat(), b""));
    assert_eq!(given, json(&base, piped.as_bytes()));
    assert_eq!(given, json(&[&base[..], &["--file", "-"]].concat(), piped.as_bytes()));
}

#[test]
fn every_way_to_give_the_labels_gives_the_same_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (lines, list) = (dir.path().join("labels.txt"), dir.path().join("labels.json"));
    std::fs::write(&lines, "complaint\npraise\n\ncooking recipe\n").unwrap();
    std::fs::write(&list, r#"["complaint", "praise", "cooking recipe"]"#).unwrap();
    let base = ["--text", TEXT, "--format", "json"];
    let given = json(&[&base[..], &["--labels", LABELS]].concat(), b"");
    let repeated = ["--labels", "complaint", "--labels", " praise,cooking recipe "];
    assert_eq!(given, json(&[&base[..], &repeated].concat(), b""));
    for file in [&lines, &list] {
        let labels = format!("@{}", file.display());
        assert_eq!(given, json(&[&base[..], &["--labels", &labels]].concat(), b""));
    }
}

#[test]
fn multi_label_chooses_by_threshold() {
    let base = ["--text", TEXT, "--labels", LABELS, "--format", "json", "--multi-label"];
    let all = json(&[&base[..], &["--threshold", "0"]].concat(), b"");
    assert_eq!(all["mode"], "multi-label");
    assert!(all["labels"].as_array().unwrap().iter().all(|l| l["chosen"] == true));
    let none = json(&[&base[..], &["--threshold", "1"]].concat(), b"");
    assert!(none["labels"].as_array().unwrap().iter().all(|l| l["chosen"] == false));
    let best = json(&[&base[..], &["--top-k", "1"]].concat(), b"");
    assert_eq!(names(&best), names(&all)[..1]);
}

#[test]
fn hierarchies_are_dotted_or_trees() {
    let labels = r#"{"tone": ["calm", "angry"], "topic": {"shop": ["bill", "repair"]}}"#;
    let answer = json(&["--text", TEXT, "--labels", labels, "--hierarchy", "tree", "--format", "json"], b"");
    assert!(names(&answer).contains(&"topic.shop.repair"));
    assert!(answer["tree"]["topic"]["shop"]["repair"].is_number());
    let table = classify(&["--text", TEXT, "--labels", labels, "--hierarchy", "tree"], b"");
    assert_eq!(table.code, 0);
    assert!(table.out.contains("\n    shop\n"), "{}", table.out);
}

#[test]
fn the_table_is_plain_in_a_pipe_and_coloured_when_forced() {
    let args = ["classify", "--text", TEXT, "--labels", LABELS];
    let plain = run(dikast().args(args));
    assert_eq!(plain.code, 0);
    assert!(!plain.out.contains('\u{1b}'));
    assert_eq!(plain.out.lines().count(), 4, "{}", plain.out);
    assert!(plain.out.starts_with("✓ ") && plain.out.contains('%') && plain.out.contains("gliclass-mini"));
    let coloured = run(dikast().args(args).env("CLICOLOR_FORCE", "1"));
    assert!(coloured.out.contains('\u{1b}'));
    let refused = run(dikast().args(args).env("NO_COLOR", "1"));
    assert!(!refused.out.contains('\u{1b}'));
}

#[test]
fn hostile_labels_stay_text() {
    let labels = serde_json::json!(["\u{1b}[2J\u{9b}31m", "日本語\u{202E}", "a, b"]).to_string();
    for format in ["table", "json", "jsonl"] {
        let outcome = classify(&["--text", "\u{1b}]0;x\u{7}", "--labels", &labels, "--format", format], b"");
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        assert!(!outcome.out.contains(['\u{1b}', '\u{9b}', '\u{202E}', '\u{7}']), "{}", outcome.out);
    }
}

#[test]
fn prompt_and_examples_change_the_answer() {
    let base = ["--text", TEXT, "--labels", LABELS, "--format", "json"];
    let plain = json(&base, b"");
    assert_ne!(plain, json(&[&base[..], &["--prompt", "Judge the customer's mood:"]].concat(), b""));
    let examples = r#"{"text": "I love it", "labels": ["praise"]}"#;
    assert_ne!(plain, json(&[&base[..], &["--examples", examples]].concat(), b""));
}

#[test]
fn long_texts_are_refused_cut_or_chunked() {
    let long = "The battery died again. ".repeat(400);
    let base = ["--labels", LABELS, "--format", "json"];
    let refused = classify(&base, long.as_bytes());
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("too large"), "{}", refused.err);
    for flag in ["--truncate text", "--chunk", "--max-tokens"] {
        assert!(refused.err.contains(flag), "{}", refused.err);
    }
    let cut = json(&[&base[..], &["--truncate", "text", "--max-tokens", "128"]].concat(), long.as_bytes());
    assert!(cut["dropped_text_tokens"].as_u64().unwrap() > 0 && cut["tokens"].as_u64().unwrap() <= 128);
    let chunk = ["--chunk", "--chunk-chars", "2000", "--chunk-overlap", "100"];
    let chunked = json(&[&base[..], &chunk].concat(), long.as_bytes());
    assert!(chunked["labels"][0]["logit"].is_null());
    assert!(chunked["tokens"].as_u64().unwrap() > 1024);
}

#[test]
fn chunking_needs_no_numbers() {
    let long = "The battery of this phone died again, and nobody at the shop answers. ".repeat(120);
    let base = ["--labels", LABELS, "--format", "json", "--chunk"];
    let chunked = json(&base, long.as_bytes());
    assert!(chunked["tokens"].as_u64().unwrap() > 1024 && chunked["dropped_text_tokens"] == 0);
    // A language with more tokens a character, where text may be cut: nothing is.
    let dense = "\u{96fb}\u{6c60}\u{304c}\u{5207}\u{308c}\u{305f}\u{3002}".repeat(500);
    let dense = json(&[&base[..], &["--truncate", "text", "--max-tokens", "256"]].concat(), dense.as_bytes());
    assert_eq!(dense["dropped_text_tokens"], 0);

    let given = classify(&[&base[..], &["--chunk-chars", "8192"]].concat(), long.as_bytes());
    assert_eq!(given.code, 2);
    assert!(given.err.contains("--chunk-chars 8192 is too long"), "{}", given.err);
    let fitting = given.err.split("too long for this text: ").nth(1).unwrap().split(" fits").next().unwrap();
    let advice: Vec<&str> = fitting.split(' ').collect();
    json(&[&base[..], &advice].concat(), long.as_bytes());
}

#[test]
fn labels_that_were_cut_are_named() {
    let labels = "complaint,praise,cooking recipe,weather report,sports";
    let base = ["--text", TEXT, "--labels", labels, "--truncate", "right", "--max-tokens", "8"];
    let outcome = classify(&[&base[..], &["--format", "json"]].concat(), b"");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let answer: Value = serde_json::from_str(&outcome.out).unwrap();
    let cut: Vec<&str> =
        answer["cut_labels"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
    assert!(cut.ends_with(&["weather report", "sports"]) && !cut.contains(&"complaint"), "{cut:?}");
    assert!(
        outcome.err.contains("warning:") && outcome.err.contains("weather report, sports"),
        "{}",
        outcome.err
    );
    let table = classify(&base, b"");
    assert_eq!(table.out.matches("(cut)").count(), cut.len(), "{}", table.out);
    let whole = json(&["--text", TEXT, "--labels", labels, "--truncate", "right", "--format", "json"], b"");
    assert_eq!(whole["cut_labels"], serde_json::json!([]));
}

#[test]
fn an_empty_text_is_not_answered_in_silence() {
    for text in ["", " \n"] {
        let args = ["--labels", LABELS, "--text", text];
        let warned = classify(&args, b"");
        assert!(warned.code == 0 && warned.err.contains("warning: the text is empty"), "{}", warned.err);
        assert_eq!(classify(&[&args[..], &["--allow-empty"]].concat(), b"").err, "");
    }
}

#[test]
fn messages_name_flags_and_not_fields() {
    for (labels, flag) in [("a,b,a", "--allow-duplicate-labels"), ("<<SEP>>,b", "--allow-markers")] {
        let refused = classify(&["--text", TEXT, "--labels", labels], b"");
        assert!(refused.err.contains(flag) && !refused.err.contains("allow_"), "{}", refused.err);
        assert_eq!(classify(&["--text", TEXT, "--labels", labels, flag], b"").code, 0);
    }
}

#[test]
fn mistakes_have_their_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let latin = dir.path().join("latin.txt");
    std::fs::write(&latin, b"caf\xE9").unwrap();
    let no_model = dir.path().join("none");
    let text = ["--text", TEXT];
    for (code, args) in [
        (2, vec!["--no-such-flag"]),
        (2, vec!["--labels", LABELS, "--file", "no/such/file"]),
        (2, vec!["--labels", LABELS, "--file", arg(dir.path())]),
        (2, vec!["--labels", LABELS, "--file", arg(&latin)]),
        (2, [&text[..], &["--labels", ""]].concat()),
        (2, [&text[..], &["--labels", "a,,b"]].concat()),
        (2, [&text[..], &["--labels", "[]"]].concat()),
        (2, [&text[..], &["--labels", "[1]"]].concat()),
        (2, [&text[..], &["--labels", "a,b,a"]].concat()),
        (2, [&text[..], &["--labels", "<<SEP>>,b"]].concat()),
        (2, [&text[..], &["--labels", "@no/such/file"]].concat()),
        (2, [&text[..], &["--labels", LABELS, "--examples", "{"]].concat()),
        (2, [&text[..], &["--labels", LABELS, "--examples", "[3]"]].concat()),
        (2, [&text[..], &["--labels", LABELS, "--threshold", "0.5"]].concat()),
        (2, [&text[..], &["--labels", LABELS, "--format", "csv"]].concat()),
        (2, [&text[..], &["--labels", LABELS, "--chunk", "--chunk-chars", "0"]].concat()),
        (2, [&text[..], &["--labels", LABELS, "--chunk", "--chunk-overlap", "99999"]].concat()),
        (2, [&text[..], &["--labels", LABELS, "--chunk", "--chunk-labels", "0"]].concat()),
        (3, [&text[..], &["--labels", LABELS, "--model", arg(&no_model)]].concat()),
        (3, [&text[..], &["--labels", LABELS, "--model", arg(dir.path())]].concat()),
    ] {
        let outcome = classify(&args, b"");
        assert_eq!(outcome.code, code, "{args:?}: {}", outcome.err);
        assert!(outcome.err.contains("error:") && outcome.out.is_empty(), "{args:?}: {}", outcome.err);
    }
}

#[test]
fn duplicates_and_markers_can_be_allowed() {
    let outcome = classify(&["--text", TEXT, "--labels", "a,b,a", "--allow-duplicate-labels"], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let outcome = classify(&["--text", "x <<LABEL>> y", "--labels", "a,b", "--allow-markers"], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
}

#[test]
fn absent_backends_are_named() {
    let with = |backend| classify(&["--text", TEXT, "--labels", LABELS, "--backend", backend], b"");
    let cuda = with("cuda");
    assert!(cuda.code == 4 && cuda.err.contains("cuda"), "{}: {}", cuda.code, cuda.err);
    // With a device it answers, without one it says so.
    let wgpu = with("wgpu");
    assert!(
        wgpu.code == 0 || (wgpu.code == 4 && wgpu.err.contains("adapter")),
        "{}: {}",
        wgpu.code,
        wgpu.err
    );
    let chosen =
        run(dikast().args(["classify", "--text", TEXT, "--labels", LABELS]).env("DIKAST_BACKEND", "cpu"));
    assert_eq!(chosen.code, 0);
}

#[cfg(unix)]
#[test]
fn standard_output_may_be_closed_or_full() {
    let shell = |redirect: &str| {
        let script = format!("exec \"$0\" classify --text hello --labels a,b {redirect}");
        run(assert_cmd::Command::new("sh").args(["-c", &script, common::PROGRAM]))
    };
    assert_eq!(shell(">&-").code, 0);
    if std::path::Path::new("/dev/full").exists() {
        let full = shell("> /dev/full");
        assert_eq!(full.code, 1);
        assert!(full.err.contains("standard output"), "{}", full.err);
    }
}
