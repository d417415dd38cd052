//! What is written loads, says what it is, and is the same for the same seed.

use super::*;
use crate::preset;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::models::gliclass::GliClass;

fn tiny() -> Value {
    let mut config = preset("gliclass-multilang-ultra").expect("a preset");
    let encoder = &mut config["encoder_config"];
    for (key, value) in [
        ("vocab_size", 403),
        ("d_model", 64),
        ("d_ff", 96),
        ("d_kv", 16),
        ("num_heads", 4),
        ("num_layers", 2),
    ] {
        encoder[key] = value.into();
    }
    for (key, value) in [
        ("vocab_size", 403),
        ("hidden_size", 64),
        ("class_token_index", 400),
        ("text_token_index", 401),
        ("example_token_index", 402),
        ("scorer_mlp_hidden_size", 32),
    ] {
        config[key] = value.into();
    }
    config
}

fn recipe(config: Value, format: Format, seed: u64) -> Recipe {
    Recipe { config, format, seed, tokenizer: None, like: "tiny".to_owned() }
}

/// The small real checkpoint with a real tokenizer.
fn fixture() -> (Value, ModelFiles) {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/gliclass-tiny/mt5-fp8");
    let files = ModelFiles::open(dir).expect("the fixture");
    let config = files.read(CONFIG).expect("its configuration");
    (serde_json::from_slice(config.bytes()).expect("JSON"), files)
}

#[test]
fn an_existing_model_lends_configuration_and_tokenizer() {
    let (config, files) = fixture();
    for format in [Format::Bf16, Format::Fp8] {
        let dir = tempfile::tempdir().expect("a folder");
        let recipe = Recipe { tokenizer: Some(files.clone()), ..recipe(config.clone(), format, 5) };
        write(dir.path(), &recipe, &mut |_, _| {}).expect("it is written");
        let model = GliClass::load(&ModelFiles::open(dir.path()).expect("the folder")).expect("it loads");
        assert_eq!(model.format() == "FP8 W8A8", format == Format::Fp8);
        assert_eq!(model.tokenizer().vocab_size(), 2043);
        assert!(dir.path().join(TOKENIZER_CONFIG).exists());
    }
}

#[test]
fn a_foreign_tokenizer_and_another_kind_of_model_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("out");
    let (config, files) = fixture();
    let foreign = Recipe { tokenizer: Some(files), ..recipe(tiny(), Format::Bf16, 1) };
    let error = write(&out, &foreign, &mut |_, _| {}).expect_err("the ids differ");
    assert!(matches!(error, Error::Checkpoint { .. }), "{error}");
    let mut other = config;
    other["encoder_config"]["model_type"] = "deberta-v2".into();
    let error = write(&out, &recipe(other, Format::Bf16, 1), &mut |_, _| {}).expect_err("another kind");
    assert!(matches!(&error, Error::Unsupported { .. }) && error.to_string().contains("deberta"), "{error}");
    assert!(!out.exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    std::fs::write(&file, "x").expect("a file");
    let error = write(&file.join("out"), &recipe(tiny(), Format::Bf16, 1), &mut |_, _| {});
    let error = error.expect_err("a file is no folder");
    assert!(matches!(&error, Error::Io { path, .. } if path.contains("file")), "{error}");
}

#[test]
fn a_synthetic_checkpoint_loads_and_is_the_same_for_the_same_seed() {
    let dir = tempfile::tempdir().expect("a folder");
    for (format, name) in [(Format::Bf16, "BF16"), (Format::Fp8, "FP8 W8A8")] {
        let write = |folder: &str, seed| {
            let path = dir.path().join(format!("{name}-{folder}"));
            let (mut last, mut all) = (0, 0);
            let written = write(&path, &recipe(tiny(), format, seed), &mut |done, total| {
                assert!(done > last && done <= total);
                (last, all) = (done, total);
            });
            let written = written.expect("it is written");
            let file = std::fs::read(path.join(WEIGHTS)).expect("the file");
            assert_eq!((file.len() as u64, written.bytes), (written.bytes, all));
            let files = ModelFiles::open(&path).expect("the folder");
            let model = GliClass::load(&files).expect("it loads");
            assert_eq!(model.format(), name);
            let provenance = Provenance::read(&files).expect("it says what it is");
            assert_eq!((provenance.seed, provenance.quant.as_str()), (Some(seed), format.name()));
            file
        };
        let first = write("a", 1);
        assert_eq!(first, write("b", 1));
        assert_ne!(first, write("c", 2));
    }
}

#[test]
fn the_published_sizes_are_met() {
    let config = preset("gliclass-multilang-ultra").expect("a preset").to_string();
    let expected = expected_tensors(&GliClassConfig::from_json(config.as_bytes()).expect("valid"));
    let bytes = |fp8: bool| {
        let choose = |t: &dikast_core::checkpoint::TensorSpec| {
            if fp8 && !t.companions.is_empty() { StoredType::F8E4M3 } else { StoredType::BF16 }
        };
        FileLayout::new(expected.stored(choose)).expect("a layout").file_bytes()
    };
    assert_eq!((bytes(true), bytes(false)), (2_259_902_516, 3_416_522_340));
}
