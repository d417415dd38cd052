//! Whole evaluations of the built-in and of damaged models, on the CPU.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dikast_core::checkpoint::{Blob, ModelFiles};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::{Error, Result};
use dikast_eval::{
    Evaluated, Example, Limits, NoiseFloor, ReadOptions, batch_orders, evaluate, predictions, read, summarize,
};
use serde_json::Value;

fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/gliclass-tiny").join(name)
}

fn engine(files: &ModelFiles) -> Engine<CpuBackend> {
    Engine::load(CpuBackend::new(), files, EngineOptions::default()).expect("it loads")
}

/// Twelve texts with labels, four of them with several right ones.
fn examples() -> Vec<Example> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("texts.jsonl");
    let lines: String = (0..12)
        .map(|i| {
            let expected = if i % 3 == 0 { "[\"b\", \"c c\"]" } else { "\"b\"" };
            let set = if i < 4 { "first" } else { "second" };
            let text = "word ".repeat(i + 1);
            format!(
                "{{\"id\": \"{i}\", \"set\": \"{set}\", \"text\": \"{text}\", \"labels\": [\"a\", \"b\", \"c c\"], \"expected\": {expected}}}\n"
            )
        })
        .collect();
    std::fs::write(&path, lines).expect("written");
    read(&path, &ReadOptions::default()).expect("examples")
}

type Found = Evaluated<dikast_core::tokens::Sequence>;

fn run(candidate: &ModelFiles, reference: Option<&ModelFiles>, examples: &[Example]) -> Result<Found> {
    let mut other = reference.map(engine);
    let limits = Limits { timed_examples: 1, ..Limits::default() };
    pollster::block_on(evaluate(&mut engine(candidate), other.as_mut(), examples, limits, &mut |_, _| {}))
}

fn files(dir: &Path) -> ModelFiles {
    ModelFiles::open(dir).expect("a model")
}

#[test]
fn a_model_beside_itself_has_no_drift() {
    let (examples, model) = (examples(), files(&tiny("mt5")));
    let found = run(&model, Some(&model), &examples).expect("it runs");
    let report = summarize(&examples, &found, None);
    let comparison = report.total.comparison.as_ref().expect("a reference");
    // Four texts of three decisions each, eight of one.
    assert_eq!((comparison.agreement.agreeing, comparison.agreement.of), (20, 20));
    assert_eq!((comparison.top1.of, report.total.questions), (12, 12));
    assert_eq!(comparison.logit_l2.expect("logits").largest, 0.0);
    assert_eq!(comparison.hidden_l2.expect("hidden states").largest, 0.0);
    assert_eq!(report.blocks.len(), 4);
    assert!(
        report.blocks.iter().all(|b| b.local == Some(0.0) && b.accumulated == 0.0),
        "{:?}",
        report.blocks
    );
    assert!(report.flips.is_empty());
    let names: Vec<&str> = report.sets.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    let paired = report.total.paired.expect("labels are known");
    assert_eq!(
        (paired.accuracy.value, paired.accuracy.interval, paired.mcnemar_p),
        (0.0, Some([0.0, 0.0]), 1.0)
    );
}

#[test]
fn quantized_weights_drift_a_little_and_everything_is_written_down() {
    let examples = examples();
    let found = run(&files(&tiny("mt5-fp8")), Some(&files(&tiny("mt5"))), &examples).expect("it runs");
    let report = summarize(&examples, &found, None);
    let comparison = report.total.comparison.as_ref().expect("a reference");
    let logits = comparison.logit_l2.expect("logits");
    assert!(logits.mean > 1e-4 && logits.mean < 0.5, "{logits:?}");
    for block in &report.blocks {
        assert!(block.local.is_some_and(|l| l > 1e-4 && l < 0.2) && block.accumulated > 1e-4, "{block:?}");
    }
    // The first block has the same input in both.
    let first = &report.blocks[0];
    assert!((first.local.expect("local") - first.accumulated).abs() < 1e-6, "{first:?}");
    assert_eq!(report.candidate.format, "FP8 W8A8");
    assert!(report.candidate.weight_bytes < report.reference.as_ref().expect("there").weight_bytes);

    let lines = predictions(&examples, &found.outcomes);
    let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(lines.len(), 12);
    let question = &lines[0]["questions"]["labels"];
    assert_eq!(question["expected"], serde_json::json!(["b", "c c"]));
    for side in ["candidate", "reference"] {
        assert_eq!(question[side]["probabilities"].as_array().map(Vec::len), Some(3));
    }
    let json: Value = serde_json::from_str(&report.to_json().expect("JSON")).expect("JSON");
    assert_eq!(json["total"]["comparison"]["agreement"]["of"], 20);
    let page = report.to_html();
    assert!(
        page.contains("<svg") && page.contains("Drift of the blocks") && !page.contains("http"),
        "{page}"
    );
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    assert!(report.to_text().contains("block.3"));
}

/// The model with the scales of two blocks' matrices swapped: it loads, and answers plausible nonsense.
fn damaged() -> ModelFiles {
    let mut bytes = std::fs::read(tiny("mt5-fp8/model.safetensors")).expect("weights");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let header: BTreeMap<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
    let range = |block: usize| {
        let name =
            format!("model.encoder_model.encoder.block.{block}.layer.1.DenseReluDense.wi_0.weight_scale");
        let at =
            |i: usize| 8 + length + header[&name]["data_offsets"][i].as_u64().expect("an offset") as usize;
        at(0)..at(1)
    };
    let (first, second) = (bytes[range(1)].to_vec(), bytes[range(2)].to_vec());
    assert_ne!(first, second);
    bytes[range(1)].copy_from_slice(&second);
    bytes[range(2)].copy_from_slice(&first);
    let small = ["config.json", "tokenizer.json", "tokenizer_config.json"]
        .map(|name| (name.to_owned(), std::fs::read(tiny("mt5-fp8").join(name)).expect("there")));
    let all = small.into_iter().chain([("model.safetensors".to_owned(), bytes)]);
    ModelFiles::from_memory("damaged", all.map(|(name, bytes)| (name, Blob::Owned(Arc::new(bytes)))))
}

#[test]
fn damaged_blocks_stand_out_in_the_local_drift() {
    let examples = examples();
    let reference = files(&tiny("mt5"));
    let sound = summarize(
        &examples,
        &run(&files(&tiny("mt5-fp8")), Some(&reference), &examples).expect("it runs"),
        None,
    );
    let broken = summarize(&examples, &run(&damaged(), Some(&reference), &examples).expect("it runs"), None);
    let grown: Vec<f64> = sound
        .blocks
        .iter()
        .zip(&broken.blocks)
        .map(|(s, b)| b.local.expect("local") / s.local.expect("local"))
        .collect();
    assert!(grown[1] > 1.5 && grown[2] > 1.5, "{grown:?}");
    assert!((grown[0] - 1.0).abs() < 1e-6 && (grown[3] - 1.0).abs() < 1e-6, "{grown:?}");
    assert!(broken.blocks[3].accumulated > 1.2 * sound.blocks[3].accumulated, "it goes on from there");
}

#[test]
fn the_same_bits_in_any_order_of_batches() {
    let examples = examples();
    let mut engine = engine(&files(&tiny("mt5-fp8")));
    let found = pollster::block_on(evaluate(
        &mut engine,
        None,
        &examples,
        Limits { timed_examples: 0, ..Limits::default() },
        &mut |_, _| {},
    ))
    .expect("it runs");
    let side = &found.candidate;
    let asked: Vec<_> =
        side.sequences.iter().map(|(place, s)| (s, examples[*place].questions.as_slice())).collect();
    let runs = pollster::block_on(batch_orders(&mut engine, &asked, &side.logits)).expect("it runs");
    assert_eq!(runs.len(), 3);
    for run in &runs {
        assert!(run.same_bits && run.agreeing == run.decisions && run.decisions == 20, "{run:?}");
    }
    let report = summarize(&examples, &found, Some(NoiseFloor { examples: asked.len(), runs }));
    assert!(report.to_html().contains("Noise floor"));
    assert!(report.total.comparison.is_none() && report.total.scores.is_some());
}

#[test]
fn examples_that_cannot_be_read_are_listed() {
    let mut all = examples();
    if let dikast_eval::Request::Classify(request) = &mut all[3].request {
        request.text = "word ".repeat(3000);
    }
    let model = files(&tiny("mt5"));
    let found = run(&model, None, &all).expect("it runs");
    assert_eq!((found.outcomes.len(), found.skipped.len()), (11, 1));
    assert!(found.skipped[0].id == "3" && found.skipped[0].reason.contains("1024"), "{:?}", found.skipped);
    let failed = run(&model, None, &all[3..4]);
    assert!(
        matches!(&failed, Err(Error::InvalidRequest { message, .. }) if message.contains("1024")),
        "{failed:?}"
    );
}
