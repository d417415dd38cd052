//! An output cut at every byte resumes to the bytes of an uninterrupted run.

use super::super::output::Output;
use super::super::progress::Progress;
use super::super::reader::texts::TextSource;
use super::super::reader::texts::tests::source;
use super::super::runner::{self, Classifying};
use super::super::totals::Totals;
use super::super::writer::Labels;
use super::*;
use crate::args::InputFormat;
use crate::classifier::fake::FakeClassifier;

const INPUT: &str = "{\"id\":\"x\",\"text\":\"a\"}\n\n{\"id\":\"y,\\n\\\"q\\\"\",\"text\":\"bad\"}\n{\"text\":\"ccc\"}\nnope\n{\"id\":4,\"text\":\"\u{e9}\"}\n";

fn encoder(format: OutputFormat) -> Encoder<Labels> {
    Encoder { format, delimiter: b',', keep: vec!["id".into()], form: Labels { top_k: None } }
}

fn reader(input: &str) -> Reader<&[u8], TextSource> {
    let mut source = source(InputFormat::Jsonl);
    source.set_keep(vec!["id".into()]);
    Reader::new(input.as_bytes(), source).unwrap()
}

/// Runs over `input`, continuing `existing`; the bytes of the output, or why it was refused.
fn run(format: OutputFormat, input: &str, existing: &[u8]) -> Result<(Vec<u8>, Totals, usize)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    std::fs::write(&path, existing).unwrap();
    let file = std::fs::OpenOptions::new().read(true).append(true).open(&path).unwrap();
    let (encoder, mut reader) = (encoder(format), reader(input));
    let outcome = continue_file(&file, "out", &encoder, &mut reader, |_, _| Ok(()));
    if outcome.is_err() {
        assert_eq!(std::fs::read(&path).unwrap(), existing, "a refused file is left as it was");
    }
    let done = outcome?;
    let mut output = Output::for_tests(file);
    if done.bytes == 0 {
        output.write(&encoder.header())?;
    }
    let mut classifier = FakeClassifier::default();
    let mut progress = Progress::start(None, done, false, false);
    let mut answerer = Classifying(&mut classifier);
    let totals = runner::run(&mut reader, &mut answerer, &encoder, &mut output, done, &mut progress)?;
    Ok((std::fs::read(&path).unwrap(), totals, classifier.seen))
}

#[test]
fn every_cut_resumes_to_the_same_file() {
    for format in [OutputFormat::Jsonl, OutputFormat::Csv] {
        let (whole, totals, seen) = run(format, INPUT, b"").unwrap();
        assert_eq!(totals, Totals { rows: 5, failed: 2 });
        assert_eq!(seen, 4);
        for cut in 0..=whole.len() {
            let (resumed, again, _) = run(format, INPUT, &whole[..cut]).unwrap();
            assert_eq!(String::from_utf8_lossy(&resumed), String::from_utf8_lossy(&whole), "cut at {cut}");
            assert_eq!(again, totals, "cut at {cut}");
        }
        assert_eq!(run(format, INPUT, &whole).unwrap().2, 0, "a finished file needs no work");
    }
}

#[test]
fn other_files_are_refused_untouched() {
    let (whole, ..) = run(OutputFormat::Jsonl, INPUT, b"").unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    let swapped = [lines[1], lines[0]].concat();
    let doubled = [lines[0], lines[0]].concat();
    let more = [whole.clone(), whole.clone()].concat();
    let foreign = b"{\"row\":0,\"id\":\"x\",\"title\":\"somebody else's\"}\n";
    let no_line_end = b"my precious notes";
    for existing in [&swapped[..], &doubled, &more, foreign, no_line_end, b"notes\n", b"\n"] {
        let failure = run(OutputFormat::Jsonl, INPUT, existing).unwrap_err();
        assert_eq!(failure.code(), 2, "{failure}");
        assert!(failure.to_string().contains("cannot be resumed"), "{failure}");
        assert!(run(OutputFormat::Csv, INPUT, existing).is_err());
    }
    let (csv, ..) = run(OutputFormat::Csv, INPUT, b"").unwrap();
    assert!(run(OutputFormat::Jsonl, INPUT, &csv).is_err());
}

#[test]
fn another_input_is_noticed() {
    let (whole, ..) = run(OutputFormat::Jsonl, INPUT, b"").unwrap();
    let changed = INPUT.replacen("\"x\"", "\"z\"", 1);
    assert!(run(OutputFormat::Jsonl, &changed, &whole).unwrap_err().to_string().contains("another id"));
    let shorter = INPUT.lines().next().unwrap();
    assert!(run(OutputFormat::Jsonl, shorter, &whole).unwrap_err().to_string().contains("more rows"));
}

#[test]
fn a_lost_device_leaves_a_resumable_file() {
    let input = INPUT.replacen("ccc", "lost", 1);
    let failure = run(OutputFormat::Jsonl, &input, b"").unwrap_err();
    assert_eq!(failure.code(), 4);
}

#[test]
fn one_row_without_memory_does_not_take_its_neighbours_along() {
    let input = INPUT.replacen("ccc", "huge", 1);
    let (whole, totals, _) = run(OutputFormat::Jsonl, &input, b"").unwrap();
    assert_eq!(totals, Totals { rows: 5, failed: 3 });
    let text = String::from_utf8(whole).unwrap();
    assert_eq!(text.matches("out_of_memory").count(), 1, "{text}");
}
