//! Batch mode, with the built-in model.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use common::{arg, classify, lines};
use serde_json::json;

const ROWS: &str = "{\"text\": \"The soup was wonderful\", \"id\": \"a\"}\r\n\
    \n\
    not json\n\
    {\"text\": \"My invoice is wrong\", \"labels\": [\"billing\", \"food\"], \"multi_label\": true, \"gold\": 1}\n\
    {\"body\": \"no text\"}\n\
    {\"text\": \"last\", \"labels\": [\"x\", \"x\"]}";

#[test]
fn jsonl_streams_rows_and_error_records() {
    let args = ["--input", "-", "--labels", "food,billing", "--labels-field", "labels", "--keep", "gold"];
    let outcome = classify(&args, ROWS.as_bytes());
    assert_eq!(outcome.code, 5, "{}", outcome.err);
    assert!(outcome.err.contains("3 of 5 rows failed"), "{}", outcome.err);
    let rows = lines(&outcome.out);
    assert_eq!(rows.len(), 5);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(row["row"], i);
        assert_ne!(row.get("labels").is_some(), row.get("error").is_some());
    }
    assert_eq!(rows[0]["id"], "a");
    assert!(rows[0]["label"].is_string() && rows[0]["score"].is_number());
    assert_eq!(rows[0]["labels"].as_array().unwrap().len(), 2);
    assert_eq!(rows[2]["kept"], json!({"gold": 1}));
    for i in [1, 3, 4] {
        assert_eq!(rows[i]["error"]["kind"], "invalid_request", "{}", rows[i]);
    }
}

#[test]
fn a_row_gives_what_the_one_text_form_gives() {
    let text = "My invoice is wrong";
    let one = classify(&["--text", text, "--labels", "food,billing", "--format", "jsonl"], b"");
    let row = json!({"text": text}).to_string();
    let many = format!("{}{row}\n", format!("{}\n", json!({"text": "something else entirely"})).repeat(20));
    let batch = classify(&["--input", "-", "--labels", "food,billing", "--quiet"], many.as_bytes());
    assert_eq!(batch.code, 0);
    assert!(batch.err.is_empty(), "--quiet says nothing: {}", batch.err);
    assert_eq!(lines(&batch.out)[20]["labels"], lines(&one.out)[0]["labels"]);
}

#[test]
fn labels_of_row_and_flag_never_compete_in_silence() {
    let rows = "{\"text\": \"hi\", \"labels\": [\"b\"]}\n{\"text\": \"hi\", \"labels\": [\"a\", \"b\"]}\n{\"text\": \"hi\"}\n";
    let run = |more: &[&str]| classify(&[&["--input", "-"], more].concat(), rows.as_bytes());
    let count = |row: &serde_json::Value| row["labels"].as_array().map_or(0, Vec::len);
    let counts = |out: &str| lines(out).iter().map(count).collect::<Vec<_>>();
    let both = run(&["--labels", "a,b"]);
    assert_eq!((both.code, counts(&both.out)), (5, vec![0, 2, 2]));
    let message = lines(&both.out)[0]["error"]["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("--labels-field labels") && message.contains("--ignore-field labels"),
        "{message}"
    );
    let rows_win = run(&["--labels", "a,b", "--labels-field", "labels"]);
    assert_eq!((rows_win.code, counts(&rows_win.out)), (0, vec![1, 2, 2]));
    let flag_wins = run(&["--labels", "a,b", "--ignore-field", "labels"]);
    assert_eq!((flag_wins.code, counts(&flag_wins.out)), (0, vec![2, 2, 2]));
    let no_flag = run(&[]);
    assert_eq!((no_flag.code, counts(&no_flag.out)), (5, vec![1, 2, 0]));
    assert_eq!(run(&["--ignore-field", "labels"]).code, 2);
    assert_eq!(run(&["--ignore-field", "labels", "--labels-field", "labels", "--labels", "a"]).code, 2);
    assert_eq!(run(&["--ignore-field", "lables", "--labels", "a"]).code, 2);
}

#[test]
fn empty_texts_are_error_records_unless_allowed() {
    let rows = "id,text\n1,\n2,  \n3,hello\n";
    let args = ["--input", "-", "--input-format", "csv", "--labels", "a,b"];
    let strict = classify(&args, rows.as_bytes());
    assert_eq!(strict.code, 5);
    assert!(strict.err.contains("2 of 3 rows failed; each has an error record"), "{}", strict.err);
    let failed = |out: &str| lines(out).iter().filter(|row| row.get("error").is_some()).count();
    assert_eq!(failed(&strict.out), 2);
    let allowed = classify(&[&args[..], &["--allow-empty"]].concat(), rows.as_bytes());
    assert_eq!((allowed.code, failed(&allowed.out)), (0, 0));
    let one = classify(&args, b"text\n\" \"\n");
    assert!(one.err.contains("1 of 1 row failed; it has an error record"), "{}", one.err);
}

#[test]
fn tsv_is_read_and_written_with_tabs() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.tsv");
    std::fs::write(&input, "id\ttext\n1\tone, two\n").unwrap();
    let run = |name: &str, more: &[&str]| {
        let output = dir.path().join(name);
        let args = ["--input", arg(&input), "--output", arg(&output), "--labels", "a,b", "--quiet"];
        (
            classify(&[&args[..], more].concat(), b"").code,
            std::fs::read_to_string(&output).unwrap_or_default(),
        )
    };
    let (code, tabs) = run("out.tsv", &[]);
    assert!(code == 0 && tabs.starts_with("row\tid\tlabel"), "{tabs}");
    let (code, commas) = run("out.csv", &[]);
    assert!(code == 0 && commas.starts_with("row,id,label"), "{commas}");
    assert_eq!(run("other.tsv", &["--delimiter", ","]).0, 2, "a delimiter that is given holds");
}

#[test]
fn cut_labels_stand_in_the_records() {
    let labels = "complaint,praise,cooking recipe,weather report,sports";
    let args = ["--input", "-", "--labels", labels, "--truncate", "right", "--max-tokens", "8"];
    let outcome = classify(&args, b"{\"text\": \"hello\"}\n");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert!(outcome.err.contains("warning: 1 row with labels"), "{}", outcome.err);
    let record = &lines(&outcome.out)[0];
    assert_eq!(record["cut_labels"].as_array().unwrap().last().unwrap(), "sports", "{record}");
    let csv = classify(&[&args[..], &["--format", "csv", "--quiet"]].concat(), b"{\"text\": \"hello\"}\n");
    assert!(csv.out.lines().nth(1).unwrap().contains("sports\"\"]"), "{}", csv.out);
}

#[test]
fn chunks_fit_every_row() {
    let long = |text: &str, n: usize| format!("{}\n", json!({"text": text.repeat(n)}));
    let rows = [
        long("The battery died again. ", 400),
        long("\u{96fb}\u{6c60}\u{304c}\u{5207}\u{308c}\u{305f}\u{3002}", 600),
        long("short", 1),
    ]
    .concat();
    let outcome = classify(&["--input", "-", "--labels", "a,b", "--chunk"], rows.as_bytes());
    assert_eq!(outcome.code, 0, "{} {}", outcome.err, outcome.out);
    let given =
        classify(&["--input", "-", "--labels", "a,b", "--chunk", "--chunk-chars", "8192"], rows.as_bytes());
    let rows = lines(&given.out);
    assert_eq!(given.code, 5);
    let message = rows[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("--chunk-chars 8192 is too long for this text"), "{message}");
    assert!(rows[2].get("error").is_none());
}

#[test]
fn csv_in_and_out() {
    let input =
        "\u{FEFF}nr,body,gold\r\n7,\"two\nlines, \"\"quoted\"\"\",x\r\n\r\n8,short\r\n9,plain,\"y,\nz\"\r\n";
    let args = ["--input", "-", "--input-format", "csv", "--format", "csv", "--labels", "food,billing"];
    let columns = ["--text-column", "body", "--id-column", "nr", "--keep", "gold"];
    let outcome = classify(&[&args[..], &columns].concat(), input.as_bytes());
    assert_eq!(outcome.code, 5, "{}", outcome.err);
    let mut reader = csv::Reader::from_reader(outcome.out.as_bytes());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let columns =
        "row,id,label,score,chosen,labels,error_kind,error_message,dropped_text_tokens,cut_labels,gold";
    assert_eq!(header.join(","), columns);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let cells = |i: usize| rows.iter().map(|r| r.get(i).unwrap()).collect::<Vec<_>>();
    assert_eq!(cells(0), ["0", "1", "2"]);
    assert_eq!(cells(1), ["7", "8", "9"]);
    assert_eq!(cells(6), ["", "invalid_request", ""]);
    assert_eq!(cells(10), ["x", "", "y,\nz"]);
}

#[test]
fn a_missing_column_lists_the_columns() {
    let args = ["--input", "-", "--input-format", "csv", "--labels", "a,b", "--text-column", "body"];
    let outcome = classify(&args, b"id,text\n1,x\n");
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("no column body") && outcome.err.contains("id, text"), "{}", outcome.err);
}

#[test]
fn a_huge_line_and_bad_bytes_are_error_records() {
    let mut input = b"{\"text\": \"".to_vec();
    input.resize(9 << 20, b'x');
    input.extend_from_slice(b"\"}\n{\"text\": \"\xFF\"}\n{\"text\": \"fine\"}\n");
    let outcome = classify(&["--input", "-", "--labels", "a,b"], &input);
    assert_eq!(outcome.code, 5);
    let rows = lines(&outcome.out);
    assert_eq!(rows[0]["error"]["kind"], "too_large");
    assert_eq!(rows[1]["error"]["kind"], "invalid_request");
    assert!(rows[2]["label"].is_string());
}

#[test]
fn outputs_are_not_overwritten_by_accident() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in.jsonl"), dir.path().join("out.jsonl"));
    std::fs::write(&input, "{\"text\": \"hi\"}\n").unwrap();
    std::fs::write(&output, "precious\n").unwrap();
    let run = |out: &str, more: &[&str]| {
        classify(&[&["--input", arg(&input), "--output", out, "--labels", "a,b"], more].concat(), b"")
    };
    let refused = run(arg(&output), &[]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("--resume") && refused.err.contains("--overwrite"), "{}", refused.err);
    assert_eq!(run(arg(&output), &["--resume"]).code, 2);
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "precious\n");
    assert_eq!(run(arg(&input), &["--overwrite"]).code, 2, "the input is never the output");
    assert_eq!(std::fs::read_to_string(&input).unwrap(), "{\"text\": \"hi\"}\n");
    assert_eq!(run("-", &["--resume"]).code, 2);
    assert_eq!(run(arg(dir.path()), &["--overwrite"]).code, 2);
    assert_eq!(run("no/such/folder/out.jsonl", &[]).code, 1);
    assert_eq!(run(arg(&output), &["--overwrite"]).code, 0);
    assert_eq!(lines(&std::fs::read_to_string(&output).unwrap()).len(), 1);
}

#[test]
fn missing_inputs_are_the_callers_mistake() {
    assert_eq!(classify(&["--input", "no/such.jsonl", "--labels", "a,b"], b"").code, 2);
    assert_eq!(classify(&["--input", ".", "--labels", "a,b"], b"").code, 2);
    assert_eq!(classify(&["--input", "-", "--labels", "a,b", "--format", "table"], b"").code, 2);
    let empty = classify(&["--input", "-", "--labels", "a,b"], b"");
    assert_eq!((empty.code, empty.out.as_str()), (0, ""));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.jsonl");
    std::fs::write(&input, "{\"text\": \"hello there\"}\n".repeat(600)).unwrap();
    let mut child = Command::new(common::PROGRAM)
        .args(["classify", "--input", arg(&input), "--labels", "a,b", "--quiet"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(lines(&line)[0]["row"], 0);
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{err}");
    assert!(err.is_empty(), "{err}");
}
