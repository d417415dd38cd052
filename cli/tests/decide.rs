//! `dikast decide`, with a tiny model of random weights where the answers do not matter.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::{Outcome, arg, classify, dikast, lines, run};
use dikast_core::answers::{DecideOutput, Decision};
use dikast_core::checkpoint::ModelFiles;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::clef::Clef;
use dikast_core::request::{Confidence, DecideRequest, Json, StateTruncation, Video};
use serde_json::{Value, json};

const STATE: &str = "I was charged twice for order 4711, please send one payment back today.";
const QUESTIONS: &str = r#"{
    "urgent": {"type": "noul", "instructions": "Is it urgent?", "criteria": {"true": "today"}},
    "team": {"type": "choice", "instructions": "Which team?",
             "criteria": {"sales": null, "billing": "charges and refunds", "tech": {"does": ["errors"]}}},
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "annoyed", "furious"]}}"#;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/clef-tiny").join(name)
}

/// Runs `dikast decide` with the tiny model.
fn decide(args: &[&str], stdin: &[u8]) -> Outcome {
    run(dikast().args(["decide", "--model", arg(&data("model"))]).args(args).write_stdin(stdin))
}

fn output(args: &[&str], stdin: &[u8]) -> String {
    let outcome = decide(args, stdin);
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.err);
    outcome.out
}

/// The library's answer.
fn library(request: &DecideRequest) -> Decision {
    let model = Clef::load(&ModelFiles::open(data("model")).unwrap()).unwrap();
    let options = EngineOptions { max_tokens: 16_384, ..EngineOptions::default() };
    let mut engine = Engine::with_model(CpuBackend::new(), model, options, &mut |_, _| {}).unwrap();
    pollster::block_on(engine.decide(std::slice::from_ref(request))).remove(0).unwrap()
}

fn request(state: Json) -> DecideRequest {
    let body = Json::Object(vec![
        ("state".to_owned(), state),
        ("questions".to_owned(), Json::parse(QUESTIONS).unwrap()),
    ]);
    DecideRequest::from_tree(body, &dikast_core::request::Rules::default()).unwrap()
}

#[test]
fn three_question_types_and_a_picture_give_the_librarys_answer() {
    let picture = data("media/img_96x64.png");
    let mut request = request(STATE.into());
    request.images.push(std::fs::read(&picture).unwrap());
    let decision = library(&request);
    let base = ["--state", STATE, "--questions", QUESTIONS, "--image", arg(&picture)];
    let pretty = decision.to_json(&DecideOutput::default()).to_pretty_text();
    assert_eq!(output(&[&base[..], &["--json"]].concat(), b""), format!("{pretty}\n"));
    let line = decision.to_json(&DecideOutput { decimals: None, receipt: false });
    let args = [&base[..], &["--format", "jsonl", "--decimals", "all"]].concat();
    assert_eq!(output(&args, b""), format!("{line}\n"));
    for confidence in Confidence::NAMES {
        request.confidence = Confidence::from_name(confidence).unwrap();
        let line = library(&request).to_json(&DecideOutput { decimals: Some(4), receipt: false });
        let args =
            [&base[..], &["--format", "jsonl", "--decimals", "4", "--confidence", confidence]].concat();
        assert_eq!(output(&args, b""), format!("{line}\n"), "{confidence}");
    }
}

#[test]
fn frames_of_a_folder_are_a_video() {
    let dir = tempfile::tempdir().unwrap();
    let frame = |name: &str| std::fs::read(data("media").join(name)).unwrap();
    let frames = vec![frame("img_96x64.png"); 11];
    for (i, bytes) in frames.iter().enumerate() {
        std::fs::write(dir.path().join(format!("{i}.png")), bytes).unwrap();
    }
    let mut request = request(STATE.into());
    request.videos.push(Video::Frames { frames, fps: 2.0 });
    let line = library(&request).to_json(&DecideOutput::default());
    let base = ["--state", STATE, "--questions", QUESTIONS, "--format", "jsonl", "--video", arg(dir.path())];
    assert_eq!(output(&[&base[..], &["--fps", "2"]].concat(), b""), format!("{line}\n"));
    let refused = decide(&base, b"");
    assert!(refused.code == 2 && refused.err.contains("needs --fps"), "{}", refused.err);
    std::fs::write(dir.path().join("3.png"), "no picture").unwrap();
    let refused = decide(&[&base[..], &["--fps", "2"]].concat(), b"");
    assert!(refused.code == 2 && refused.err.contains("3.png"), "{}", refused.err);
}

#[test]
fn a_film_is_a_video() {
    let film = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/video/clip.mp4");
    let mut request = request(STATE.into());
    request.videos.push(Video::File(std::fs::read(&film).unwrap()));
    let line = library(&request).to_json(&DecideOutput::default());
    let args = ["--state", STATE, "--questions", QUESTIONS, "--format", "jsonl", "--video", arg(&film)];
    assert_eq!(output(&args, b""), format!("{line}\n"));
}

#[test]
fn shorthands_ask_the_same_as_the_map() {
    let dir = tempfile::tempdir().unwrap();
    let map = r#"{"is_it_urgent": {"type": "noul", "instructions": "Is it urgent?"},
        "team": {"type": "choice", "instructions": "Which team?", "criteria": {"sales": null, "billing": "charges"}},
        "anger": {"type": "score", "instructions": "Anger", "criteria": ["calm", "furious"]}}"#;
    let file = dir.path().join("questions.json");
    std::fs::write(&file, format!("\u{FEFF}{map}\n")).unwrap();
    let base = ["--state", STATE, "--json"];
    let ask = ["--ask", "Is it urgent?"];
    let choose = ["--choose", "team:Which team?=sales|billing: charges"];
    let rate = ["--rate", "Anger=calm|furious"];
    let whole = output(&[&base[..], &["--questions", map]].concat(), b"");
    assert_eq!(whole, output(&[&base[..], &["--questions", arg(&file)]].concat(), b""));
    assert_eq!(whole, output(&[&base[..], &ask, &choose, &rate].concat(), b""));
    let other = output(&[&base[..], &rate, &choose, &ask].concat(), b"");
    let ids = |text: &str| {
        let answer: Value = serde_json::from_str(text).unwrap();
        answer["answers"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(ids(&whole), ["is_it_urgent", "team", "anger"]);
    assert_eq!(ids(&other), ["anger", "team", "is_it_urgent"], "in the order of the flags");
}

#[test]
fn every_way_to_give_the_state_gives_the_same_answer() {
    let dir = tempfile::tempdir().unwrap();
    let base = ["--questions", QUESTIONS, "--json"];
    for (state, form) in [(STATE, "text"), ("{\"b\": 1.0, \"a\": [12345678901234567890123]}", "json")] {
        let file = dir.path().join("state");
        std::fs::write(&file, format!("{state}\r\n")).unwrap();
        let given = output(&[&base[..], &["--state", state]].concat(), b"");
        let tree = if form == "json" { Json::parse(state).unwrap() } else { state.into() };
        let line = library(&request(tree)).to_json(&DecideOutput::default()).to_pretty_text();
        assert_eq!(given, format!("{line}\n"));
        let at = format!("@{}", file.display());
        assert_eq!(given, output(&[&base[..], &["--state", &at, "--state-as", form]].concat(), b""));
        let piped = format!("{state}\n");
        assert_eq!(given, output(&base, piped.as_bytes()));
        assert_eq!(given, output(&[&base[..], &["--state", "-"]].concat(), piped.as_bytes()));
    }
    let text = ["--state", "{\"a\": 1}", "--state-as", "text"];
    assert_ne!(
        output(&[&base[..], &text].concat(), b""),
        output(&[&base[..], &["--state", "{\"a\": 1}"]].concat(), b"")
    );
    let broken = decide(&[&base[..], &["--state", "{\"a\": }"]].concat(), b"");
    assert!(broken.code == 0 && broken.err.contains("warning: the state looks like JSON"), "{}", broken.err);
    let empty = decide(&[&base[..], &["--state", ""]].concat(), b"");
    assert!(empty.code == 0 && empty.err.contains("warning: the state is empty"), "{}", empty.err);
}

#[test]
fn a_long_state_is_refused_or_cut() {
    let long = STATE.repeat(40);
    let base = ["--state", &long, "--questions", QUESTIONS, "--max-tokens", "400"];
    let refused = decide(&base, b"");
    assert_eq!(refused.code, 2);
    for part in ["tokens of state, questions and media", "400 allowed", "--truncate end", "--max-tokens"] {
        assert!(refused.err.contains(part), "{}", refused.err);
    }
    let cut = output(&[&base[..], &["--truncate", "end", "--format", "jsonl"]].concat(), b"");
    let mut request = request(long.as_str().into());
    (request.truncation, request.max_tokens) = (StateTruncation::End, Some(400));
    assert_eq!(cut, format!("{}\n", library(&request).to_json(&DecideOutput::default())));
    assert!(cut.contains("\"x_truncated\":true"), "{cut}");
    let table = output(&[&base[..], &["--truncate", "end"]].concat(), b"");
    assert!(table.contains("not read: ") && table.contains("at the end of the state"), "{table}");
    let questions = decide(&["--state", "s", "--questions", QUESTIONS, "--max-tokens", "20"], b"");
    assert!(questions.code == 2 && questions.err.contains("use fewer questions"), "{}", questions.err);
}

#[test]
fn the_table_is_plain_in_a_pipe_and_hostile_text_stays_text() {
    let hostile = "\u{1b}]0;x\u{7}\u{202E}Which?=\u{1b}[2J|\u{9b}31m|c";
    let args = ["--state", "\u{1b}[2J", "--ask", "Is it late?", "--choose", hostile, "--rate", "x=a|b"];
    let table = output(&[&args[..], &["--receipt"]].concat(), b"");
    assert!(!table.contains(['\u{1b}', '\u{9b}', '\u{202E}', '\u{7}']), "{table}");
    assert!(table.starts_with("Is it late?\n") && table.contains("✓ ") && table.contains('%'), "{table}");
    assert!(table.contains(" on 0 to 1, confidence ") && table.contains("SHA-256 "), "{table}");
    let json = output(&[&args[..], &["--json"]].concat(), b"");
    assert!(!json.contains(['\u{1b}', '\u{9b}', '\u{202E}', '\u{7}']), "{json}");
    assert!(serde_json::from_str::<Value>(&json).unwrap()["answers"].as_object().unwrap().len() == 3);
}

#[test]
fn a_receipt_names_model_backend_and_weights() {
    let args = ["--state", STATE, "--ask", "Is it late?", "--json", "--receipt"];
    let answer: Value = serde_json::from_str(&output(&args, b"")).unwrap();
    let receipt = &answer["x_receipt"];
    assert_eq!((&receipt["model"], &receipt["backend"]), (&json!("model"), &json!("cpu")));
    assert_eq!(receipt["tokens"], answer["usage"]["input_tokens"]);
    assert_eq!(receipt["checkpoint_digest"].as_str().unwrap().len(), 64, "{receipt}");
}

/// Rows with and without questions and pictures of their own, and bad ones.
fn rows() -> String {
    let picture = std::fs::read(data("media/img_20x24.png")).unwrap();
    let url = format!("data:image/png;base64,{}", base64(&picture));
    let own = json!({"a": {"type": "noul", "instructions": "Is it late?"}});
    [
        json!({"id": 1.50, "state": STATE, "gold": "x"}).to_string(),
        json!({"id": "b", "state": {"z": 1, "a": null}, "questions": own}).to_string(),
        "not a row".to_owned(),
        json!({"id": "c", "state": "A picture.", "images": [url], "model": "clef"}).to_string(),
        json!({"id": "d", "state": null}).to_string(),
        json!({"id": "e", "state": "s", "questions": {"q": {"type": "box"}}}).to_string(),
        json!({"id": "f", "state": "s", "images": ["https://example.org/x.png"]}).to_string(),
        json!({"state": "the last one"}).to_string(),
    ]
    .join("\n")
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0_u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for i in 0..=group.len() {
            out.push(char::from(ALPHABET[(word >> (18 - 6 * i) & 63) as usize]));
        }
    }
    out
}

#[test]
fn a_row_without_anything_to_look_at_is_an_error_record() {
    let rows = ["", "  "].map(|state| json!({"state": state}).to_string()).join("\n");
    let outcome = decide(&["--input", "-", "--ask", "Is it late?"], rows.as_bytes());
    assert_eq!(outcome.code, 5, "{}", outcome.err);
    for record in lines(&outcome.out) {
        assert!(record["error"]["message"].as_str().unwrap().contains("empty"), "{record}");
    }
}

#[test]
fn a_batch_gives_what_the_one_state_form_gives() {
    let args = ["--input", "-", "--questions", QUESTIONS, "--keep", "gold", "--confidence", "max"];
    let outcome = decide(&args, rows().as_bytes());
    assert_eq!(outcome.code, 5, "{}", outcome.err);
    assert!(outcome.err.contains("4 of 8 rows failed"), "{}", outcome.err);
    assert!(outcome.out.starts_with("{\"row\":0,\"id\":1.5"), "{}", outcome.out);
    let records = lines(&outcome.out);
    assert_eq!(records.len(), 8);
    for (i, record) in records.iter().enumerate() {
        assert_eq!(record["row"], i);
        assert_ne!(record.get("answers").is_some(), record.get("error").is_some(), "{record}");
    }
    for (row, part) in [(2, "row"), (4, "state"), (5, "noul, choice or score"), (6, "never fetched")] {
        assert_eq!(records[row]["error"]["kind"], "invalid_request");
        assert!(records[row]["error"]["message"].as_str().unwrap().contains(part), "{}", records[row]);
    }
    assert_eq!(records[0]["kept"], json!({"gold": "x"}));
    assert_eq!(records[1]["answers"].as_object().unwrap().len(), 1, "a row's own questions win");
    assert_eq!(records[7]["id"], Value::Null);
    let picture = data("media/img_20x24.png");
    for (row, state) in
        [(0, &["--state", STATE][..]), (3, &["--state", "A picture.", "--image", arg(&picture)])]
    {
        let one = [state, &["--questions", QUESTIONS, "--confidence", "max", "--json"]].concat();
        let one: Value = serde_json::from_str(&output(&one, b"")).unwrap();
        for field in ["model", "answers", "usage"] {
            assert_eq!(records[row][field], one[field], "row {row}");
        }
    }
}

#[test]
fn a_cut_output_becomes_the_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in.jsonl"), dir.path().join("out.jsonl"));
    std::fs::write(&input, rows()).unwrap();
    let args = ["--input", arg(&input), "--output", arg(&output), "--quiet", "--ask", "Is it late?"];
    assert_eq!(decide(&args, b"").code, 5);
    let whole = std::fs::read(&output).unwrap();
    let third = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(2).map(|(i, _)| i + 1).unwrap();
    for cut in [0, 3, third, third + 20, whole.len() - 1, whole.len()] {
        std::fs::write(&output, &whole[..cut]).unwrap();
        let outcome = decide(&[&args[..], &["--resume", "--force"]].concat(), b"");
        assert_eq!(outcome.code, 5, "{}", outcome.err);
        assert!(std::fs::read(&output).unwrap() == whole, "cut at {cut}");
    }
    let exists = decide(&args, b"");
    assert!(exists.code == 2 && exists.err.contains("--resume"), "{}", exists.err);

    // An unfinished output with its word of what was asked: another question is refused.
    std::fs::write(&output, &whole[..third]).unwrap();
    let sidecar = dir.path().join("out.jsonl.dikast.json");
    assert!(!sidecar.exists());
    let unknown = decide(&[&args[..], &["--resume"]].concat(), b"");
    assert!(unknown.code == 2 && unknown.err.contains("is not known"), "{}", unknown.err);
}

/// A run is stopped by a signal as soon as it has written something.
#[test]
fn a_killed_run_resumes_with_the_same_questions() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in.jsonl"), dir.path().join("out.jsonl"));
    let row = |i: usize| {
        format!("{}\n", json!({"id": i, "state": format!("number {i}{}", " and more".repeat(i % 7))}))
    };
    std::fs::write(&input, (0..400).map(row).collect::<String>()).unwrap();
    let base = ["--input", arg(&input), "--output", arg(&output), "--quiet"];
    let mut child = std::process::Command::new(common::PROGRAM)
        .args(["decide", "--model", arg(&data("model")), "--ask", "Is it late?"])
        .args(base)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let started = std::time::Instant::now();
    while std::fs::metadata(&output).map_or(0, |m| m.len()) == 0 && started.elapsed().as_secs() < 120 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let written = std::fs::read(&output).unwrap();
    let done = written.iter().filter(|b| **b == b'\n').count();
    assert!(done > 0 && done < 400, "{done} rows");

    let resume = |more: &[&str]| decide(&[&base[..], &["--resume"], more].concat(), b"");
    for (more, named) in [
        (&["--ask", "Is it early?"][..], "the questions of the flags"),
        (&["--ask", "Is it late?", "--confidence", "max"], "--confidence (typesafe then, max now)"),
        (&["--ask", "Is it late?", "--decimals", "4"], "--decimals (6 then, 4 now)"),
        (&["--ask", "Is it late?", "--truncate", "end"], "--truncate (refuse then, end now)"),
        (&["--ask", "Is it late?", "--special-tokens", "live"], "--special-tokens"),
        (&["--ask", "Is it late?", "--receipt"], "--receipt"),
    ] {
        let refused = resume(more);
        assert_eq!(refused.code, 2, "{more:?}");
        assert!(refused.err.contains("other settings") && refused.err.contains(named), "{}", refused.err);
    }
    assert!(std::fs::read(&output).unwrap() == written, "a refused output is left alone");
    let resumed = resume(&["--ask", "Is it late?"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    let records = lines(&std::fs::read_to_string(&output).unwrap());
    assert!(records.len() == 400 && records.iter().enumerate().all(|(i, r)| r["row"] == i && r["id"] == i));
    assert!(std::fs::read(&output).unwrap().starts_with(&written));
    assert!(!dir.path().join("out.jsonl.dikast.json").exists());
}

#[test]
fn mistakes_have_their_messages_and_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let png = std::fs::read(data("media/img_20x24.png")).unwrap();
    let (cut, other) = (path("cut.png", &png[..png.len() / 2]), path("other.txt", b"hello there"));
    let still = path("still.png", &png);
    let mp4 = path("film.mp4", b"\0\0\0\x18ftypisom\0\0\0\0isommp42");
    let latin = path("latin.txt", b"caf\xE9");
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let at = format!("@{}", latin.display());
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let ask = ["--ask", "Is it late?"];
    let state = ["--state", "s"];
    let many = |n: usize| {
        let options: Vec<String> = (0..n).map(|i| i.to_string()).collect();
        format!("Which?={}", options.join("|"))
    };
    let (options, levels) = (many(256), many(11));
    let questions: Vec<String> = (0..65).map(|i| format!("q{i}:Is it {i}?")).collect();
    let questions: Vec<&str> = questions.iter().flat_map(|q| ["--ask", q]).collect();
    let tiny = data("model");
    for (code, part, args) in [
        (2, "no question", state.to_vec()),
        (2, "no options found", [&state[..], &["--choose", "Which?"]].concat()),
        (2, "options of questions", [&state[..], &["--choose", &options]].concat()),
        (2, "levels of questions", [&state[..], &["--rate", &levels]].concat()),
        (2, "questions: 65 found, 64 allowed", [&state[..], &questions].concat()),
        (2, "this option stands twice", [&state[..], &["--choose", "Which?=a|a"]].concat()),
        (2, "this id stands twice", [&state[..], &["--ask", "a:x?", "--ask", "a:y?"]].concat()),
        (2, "noul, choice or score", [&state[..], &["--questions", "{\"a\": {\"type\": \"box\"}}"]].concat()),
        (
            2,
            "no options found",
            [&state[..], &["--questions", "{\"a\": {\"type\": \"choice\", \"criteria\": {}}}"]].concat(),
        ),
        (2, "a map of question id", [&state[..], &["--questions", "[]"]].concat()),
        (2, "no/such/file", [&state[..], &["--questions", "no/such/file"]].concat()),
        (2, "no/such/file", [&ask[..], &["--state", "@no/such/file"]].concat()),
        (2, "not UTF-8", [&ask[..], &["--state", &at]].concat()),
        (2, "levels", [&ask[..], &["--state-as", "json", "--state", &deep]].concat()),
        (2, "a number found", [&ask[..], &["--state-as", "json", "--state", "1e999"]].concat()),
        (2, "--state: ", [&ask[..], &["--state-as", "json", "--state", "NaN"]].concat()),
        (2, "no/such.png", [&ask[..], &["--image", "no/such.png"]].concat()),
        (2, "other.txt", [&ask[..], &["--image", arg(&other)]].concat()),
        (2, "cut.png", [&ask[..], &["--image", arg(&still), "--image", arg(&cut)]].concat()),
        (2, "still.png", [&ask[..], &["--video", arg(&still)]].concat()),
        (2, "film.mp4", [&ask[..], &["--video", arg(&mp4)]].concat()),
        (2, "no frames found", [&ask[..], &["--video", arg(&empty), "--fps", "1"]].concat()),
        (3, "model: ", [&ask[..], &state, &["--model", arg(&empty)]].concat()),
        (3, "model: ", [&ask[..], &state, &["--model", "no/such/folder"]].concat()),
    ] {
        let outcome = run(dikast()
            .arg("decide")
            .args(if args.contains(&"--model") { vec![] } else { vec!["--model", arg(&tiny)] })
            .args(&args)
            .write_stdin(""));
        assert_eq!(outcome.code, code, "{part}: {}", outcome.err);
        assert!(outcome.err.contains("error:") && outcome.err.contains(part), "{part}: {}", outcome.err);
        assert!(outcome.out.is_empty(), "{part}");
    }
}

#[test]
fn a_model_of_the_other_family_names_its_command() {
    let gliclass = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/gliclass-mini");
    let wrong = run(dikast().args(["decide", "--state", "s", "--ask", "x?", "--model", arg(&gliclass)]));
    assert!(wrong.code == 2 && wrong.err.contains("use dikast classify"), "{}", wrong.err);
    let wrong = classify(&["--text", "t", "--labels", "a,b", "--model", arg(&data("model"))], b"");
    assert!(wrong.code == 2 && wrong.err.contains("use dikast decide"), "{}", wrong.err);
}

#[test]
fn the_built_in_model_answers() {
    let args = ["decide", "--state", STATE, "--choose", "Which team?=billing: charges and refunds|weather"];
    let table = run(dikast().args(args));
    assert_eq!(table.code, 0, "{}", table.err);
    assert!(table.out.contains("✓ billing") && table.out.contains("clef-mini · cpu · "), "{}", table.out);
    let json = run(dikast().args(args).args(["--json", "--receipt"]));
    let answer: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(answer["answers"]["which_team"]["choice"], "billing");
    assert_eq!(answer["x_receipt"]["quantization"], "INT8 ConvRot");
}

#[test]
fn completions_and_manual_pages_know_it() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(dikast().args(["completions", shell]));
        assert!(
            script.code == 0 && script.out.contains("decide") && script.out.contains("choose"),
            "{shell}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(dikast().args(["man", "--dir", arg(dir.path())])).code, 0);
    let page = std::fs::read_to_string(dir.path().join("dikast-decide.1")).unwrap();
    for part in ["choose", "Which team?", "System One", "EXIT STATUS"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(run(dikast().arg("man")).out.contains("dikast\\-decide"));
}
