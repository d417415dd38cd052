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
fn gold_answers_named_labels_are_left_alone() {
    let rows = "{\"text\": \"hi\", \"labels\": 3}\n";
    assert_eq!(classify(&["--input", "-", "--labels", "a,b"], rows.as_bytes()).code, 0);
    assert_eq!(classify(&["--input", "-"], rows.as_bytes()).code, 5);
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
    let columns = ["row", "id", "label", "score", "chosen", "labels", "error_kind", "error_message", "gold"];
    assert_eq!(header, columns);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let cells = |i: usize| rows.iter().map(|r| r.get(i).unwrap()).collect::<Vec<_>>();
    assert_eq!(cells(0), ["0", "1", "2"]);
    assert_eq!(cells(1), ["7", "8", "9"]);
    assert_eq!(cells(6), ["", "invalid_request", ""]);
    assert_eq!(cells(8), ["x", "", "y,\nz"]);
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
