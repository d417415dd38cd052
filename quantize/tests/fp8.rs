//! FP8 W8A8: the twin that compressed-tensors made of the same weights.

use std::fs;
use std::path::{Path, PathBuf};

use dikast_core::Error;
use dikast_core::checkpoint::{Checks, ModelFiles, StoredType, Weights};
use dikast_quantize::{Options, Pattern, Report, Scheme, convert, expected_tensors};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/gliclass-tiny").join(name)
}

fn run(source: &Path, target: &Path, options: Options) -> dikast_core::Result<Report> {
    fs::create_dir_all(target).expect("a folder");
    convert(source, target, options, &mut |_, _| {})
}

fn open(dir: &Path) -> Weights {
    let files = ModelFiles::open(dir).expect("the folder");
    let expected = expected_tensors(&files).expect("its configuration");
    Weights::open(&files, &expected, Checks::ALL).unwrap_or_else(|e| panic!("{e}"))
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("there")).expect("JSON")
}

fn keeping(patterns: &[&str]) -> Options {
    let keep = patterns.iter().map(|p| Pattern::new(*p).expect("a pattern")).collect();
    Options { keep, ..Options::new(Scheme::Fp8W8A8) }
}

#[test]
fn the_twin_is_made_again_bit_for_bit() {
    let dir = tempfile::tempdir().expect("a folder");
    let report = run(&fixture("mt5"), dir.path(), keeping(&[])).expect("converted");
    assert_eq!((report.quantized, report.errors.len()), (28, 28));
    // Three bits of mantissa: about 1/16 at most, and a third of that on the mean.
    assert!(report.errors.iter().all(|e| (0.015..0.04).contains(&e.relative_l2)), "{:?}", report.errors);
    let twin = fixture("mt5-fp8");
    // The whole weight file: header, order, codes, scales, everything else.
    assert!(
        fs::read(dir.path().join("model.safetensors")).expect("written")
            == fs::read(twin.join("model.safetensors")).expect("the fixture"),
        "the weight files differ"
    );
    let (own, want) = (json(&dir.path().join("config.json")), json(&twin.join("config.json")));
    assert_eq!(own, want);
    let card = fs::read_to_string(dir.path().join("MODEL_CARD.md")).expect("a card");
    assert!(card.contains("fp8-w8a8") && card.contains("| wi_0 | 4 |"), "{card}");
}

#[test]
fn some_matrices_may_stay() {
    let dir = tempfile::tempdir().expect("a folder");
    let report = run(&fixture("mt5"), dir.path(), keeping(&["*.block.1.*", "*.o"])).expect("converted");
    // Seven of block 1, and o of the three others.
    assert_eq!(report.quantized, 28 - 7 - 3);
    let weights = open(dir.path());
    let stored = |module: &str| {
        let module = format!("model.encoder_model.encoder.block.{module}");
        weights.storage(&module).expect("there").dtype
    };
    assert_eq!(stored("1.layer.0.SelfAttention.q"), StoredType::BF16);
    assert_eq!(stored("2.layer.0.SelfAttention.o"), StoredType::BF16);
    assert_eq!(stored("2.layer.0.SelfAttention.q"), StoredType::F8E4M3);
    let config = json(&dir.path().join("config.json"));
    let ignored = config["quantization_config"]["ignore"].as_array().expect("a list");
    assert!(ignored.contains(&"model.encoder_model.encoder.block.1.layer.1.DenseReluDense.wo".into()));
    let provenance = json(&dir.path().join("provenance.json"));
    assert_eq!(provenance["keep"], serde_json::json!(["*.block.1.*", "*.o"]));

    for (patterns, words) in [
        (&["*.nothing"][..], "names no matrix"),
        (&["*.q"][..], "run as one product"),
        (&["*"][..], "nothing would be quantized"),
    ] {
        let target = dir.path().join("refused");
        let error = run(&fixture("mt5"), &target, keeping(patterns)).expect_err("refused");
        assert!(
            matches!(error, Error::InvalidRequest { .. }) && error.to_string().contains(words),
            "{error}"
        );
        assert!(fs::read_dir(&target).expect("the folder").next().is_none(), "nothing is written");
    }
}

#[test]
fn codes_are_quantized_again_only_on_request() {
    let dir = tempfile::tempdir().expect("a folder");
    let twin = fixture("mt5-fp8");
    let error = run(&twin, &dir.path().join("a"), keeping(&[])).expect_err("refused");
    assert!(error.to_string().contains("stored as F8_E4M3 already"), "{error}");
    let again = dir.path().join("b");
    run(&twin, &again, Options { requantize: true, ..keeping(&[]) }).expect("converted");
    // A row whose scale is a little larger than its largest code needs may get another one; values hardly move.
    let (before, after) = (open(&twin), open(&again));
    let value = |w: &Weights, module: &str| -> Vec<f32> {
        let scales = w.tensor(&format!("{module}.weight_scale")).expect("scales").to_f32();
        let codes = w.tensor(&format!("{module}.weight")).expect("codes").to_f32();
        let width = codes.len() / scales.len();
        codes.iter().enumerate().map(|(i, c)| c * scales[i / width]).collect()
    };
    let module = "model.encoder_model.encoder.block.3.layer.1.DenseReluDense.wo";
    let (a, b) = (value(&before, module), value(&after, module));
    let (square, norm) =
        a.iter().zip(&b).fold((0.0, 0.0), |(s, n), (a, b)| (s + (a - b) * (a - b), n + a * a));
    assert!((square / norm).sqrt() < 0.01, "{}", (square / norm).sqrt());
    assert_eq!(json(&again.join("provenance.json"))["requantized"], true);
}

#[test]
fn a_scheme_for_the_other_family_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let clef = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/clef-tiny/model");
    let error = run(&clef, &dir.path().join("a"), keeping(&[])).expect_err("refused");
    assert!(error.to_string().contains("no matrices that may be FP8"), "{error}");
    let error = run(&fixture("mt5"), &dir.path().join("b"), Options::new(Scheme::Int8)).expect_err("refused");
    assert!(error.to_string().contains("no matrices that may be INT8"), "{error}");
}
