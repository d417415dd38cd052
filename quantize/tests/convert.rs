//! A small real release, quantized.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dikast_core::Error;
use dikast_core::checkpoint::{Checks, Digest, ModelFiles, StoredType, Weights, parse_sums};
use dikast_core::numerics::hadamard::Group;
use dikast_quantize::{Options, Report, Scheme, convert, expected_tensors};
use safetensors::SafeTensors;

fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(path)
}

fn group(size: usize) -> Scheme {
    Scheme::Int8ConvRot { group: Group::new(size).expect("a power of four") }
}

fn run(source: &Path, target: &Path, scheme: Scheme, shard_bytes: u64) -> dikast_core::Result<Report> {
    fs::create_dir_all(target).expect("a folder");
    let (mut last, mut all) = (0, 0);
    let report =
        convert(source, target, Options { shard_bytes, ..Options::new(scheme) }, &mut |done, total| {
            assert!(done > last && done <= total);
            (last, all) = (done, total);
        });
    assert!(report.is_err() || last == all);
    report
}

fn open(dir: &Path) -> Weights {
    let files = ModelFiles::open(dir).expect("the folder");
    let expected = expected_tensors(&files).expect("its configuration");
    Weights::open(&files, &expected, Checks::ALL).unwrap_or_else(|e| panic!("{e}"))
}

/// A copy of the fixture that a test may damage.
fn copy(into: &Path) -> PathBuf {
    let copy = into.join("source");
    fs::create_dir(&copy).expect("a folder");
    for entry in fs::read_dir(data("clef-tiny/model")).expect("the fixture") {
        let entry = entry.expect("a file");
        fs::copy(entry.path(), copy.join(entry.file_name())).expect("copied");
    }
    copy
}

#[test]
fn codes_and_scales_are_those_of_the_golden() {
    let dir = tempfile::tempdir().expect("a folder");
    let report = run(&data("clef-tiny/model"), dir.path(), group(64), u64::MAX).expect("converted");
    let (weights, before) = (open(dir.path()), open(&data("clef-tiny/model")));
    // Six mixers of three matrices, two of four, eight feed-forward blocks of three.
    assert_eq!(report.quantized, 6 * 3 + 2 * 4 + 8 * 3);
    assert_eq!(report.source_bytes, before.total_bytes());

    let golden = fs::read(data("clef-tiny/golden/int8_convrot.safetensors")).expect("the golden");
    let golden = SafeTensors::deserialize(&golden).expect("safetensors");
    for name in ["linear_attn.in_proj_qkv", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"] {
        let module = format!("model.language_model.layers.0.{name}");
        let want = golden.tensor(&format!("{name}.weight")).expect(name);
        assert_eq!(weights.tensor(&format!("{module}.weight")).expect(name).bytes, want.data(), "{name}");
        let want = golden.tensor(&format!("{name}.weight_scale")).expect(name);
        let scales = weights.tensor(&format!("{module}.weight_scale")).expect(name).to_f32();
        // The golden's rotation is an f32 matrix product: a sum may differ in its last bit.
        for (mine, want) in scales.iter().zip(want.data().as_chunks::<4>().0) {
            assert!(mine.to_bits().abs_diff(u32::from_le_bytes(*want)) <= 1, "{name}");
        }
    }

    let mut coded = 0;
    for (name, view) in before.iter() {
        let module = name.strip_suffix(".weight").unwrap_or(name);
        let after = weights.tensor(name).expect(name);
        if after.dtype == StoredType::I8 {
            coded += 1;
            let storage = weights.storage(module).expect(name);
            assert_eq!(storage.rotation, Group::new(64), "{name}");
            assert!(storage.scale.is_some() && storage.bias.is_none(), "{name}");
        } else {
            assert_eq!(
                (after.dtype, after.shape, after.bytes),
                (view.dtype, view.shape, view.bytes),
                "{name}"
            );
        }
    }
    assert_eq!(coded, report.quantized);
}

#[test]
fn the_folder_is_complete_and_says_what_it_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let report = run(&data("clef-tiny/model"), dir.path(), group(64), u64::MAX).expect("converted");
    assert!(
        open(dir.path())
            .storage("model.language_model.layers.7.mlp.down_proj")
            .expect("there")
            .rotation
            .is_some()
    );

    let read = |name: &str| fs::read(dir.path().join(name)).expect(name);
    for name in ["config.json", "joint_head_config.json", "processor_config.json", "tokenizer.json"] {
        assert_eq!(read(name), fs::read(data("clef-tiny/model").join(name)).expect(name), "{name}");
    }
    let sums = read("SHA256SUMS");
    let sums = parse_sums(&sums).expect("a list");
    let mut names: Vec<String> = fs::read_dir(dir.path())
        .expect("the folder")
        .map(|e| e.expect("a file").file_name().into_string().expect("a name"))
        .filter(|n| n != "SHA256SUMS")
        .collect();
    names.sort();
    assert_eq!(sums.keys().copied().collect::<Vec<_>>(), names);
    assert!(sums.iter().all(|(name, sum)| Digest::of(&read(name)) == *sum));
    assert_eq!(report.files.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), names);
    let provenance: serde_json::Value = serde_json::from_slice(&read("provenance.json")).expect("JSON");
    assert_eq!((&provenance["group_size"], &provenance["scheme"]), (&64.into(), &"int8-convrot".into()));

    // What a reader of the ComfyUI layout looks for.
    let file = read("model.safetensors");
    let tensors = SafeTensors::deserialize(&file).expect("safetensors");
    let module = "model.language_model.layers.3.self_attn.q_proj";
    let marker = tensors.tensor(&format!("{module}.comfy_quant")).expect("a marker");
    let marker: serde_json::Value = serde_json::from_slice(marker.data()).expect("JSON");
    let want = serde_json::json!({"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 64});
    assert_eq!(marker, want);
    let scale = tensors.tensor(&format!("{module}.weight_scale")).expect("scales");
    assert_eq!((scale.dtype(), scale.shape()), (safetensors::Dtype::F32, &[768, 1][..]));
    let (_, header) = SafeTensors::read_metadata(&file).expect("a header");
    let metadata = header.metadata().as_ref().expect("metadata");
    let layers: serde_json::Value = serde_json::from_str(&metadata["_quantization_metadata"]).expect("JSON");
    assert_eq!(layers["layers"][module], want);
    assert_eq!(layers["layers"].as_object().map(serde_json::Map::len), Some(report.quantized));
}

#[test]
fn the_same_bytes_every_time_and_in_any_number_of_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let files = |name: &str, shard_bytes| -> BTreeMap<String, Vec<u8>> {
        let target = dir.path().join(name);
        run(&data("clef-tiny/model"), &target, group(16), shard_bytes).expect("converted");
        let all = fs::read_dir(target).expect("the folder").map(|e| e.expect("a file"));
        all.map(|e| (e.file_name().into_string().expect("a name"), fs::read(e.path()).expect("read")))
            .collect()
    };
    let once = files("a", 400_000);
    assert_eq!(once, files("b", 400_000));
    assert!(once.keys().filter(|n| n.starts_with("model-0")).count() > 3, "{:?}", once.keys());
    assert!(once.contains_key("model.safetensors.index.json") && once.contains_key("joint_head.safetensors"));

    files("c", u64::MAX);
    let (split, whole) = (open(&dir.path().join("a")), open(&dir.path().join("c")));
    let all = |w: &Weights| -> Vec<(String, Vec<u8>)> {
        w.iter().map(|(n, t)| (n.to_owned(), t.bytes.to_vec())).collect()
    };
    assert_eq!(all(&split), all(&whole));

    // A sharded folder is a source like any other, once more without loss.
    let target = dir.path().join("kept");
    run(&data("clef-tiny/model"), &target, Scheme::Keep, 400_000).expect("written");
    assert_eq!(all(&open(&target)), all(&open(&data("clef-tiny/model"))));
    let again = dir.path().join("again");
    run(&target, &again, group(16), u64::MAX).expect("converted");
    assert_eq!(all(&open(&again)), all(&whole));
}

#[track_caller]
fn refused(result: dikast_core::Result<Report>, words: &[&str]) -> Error {
    let error = result.expect_err("must be refused");
    let text = error.to_string();
    assert!(words.iter().all(|w| text.contains(w)), "{words:?} not in: {text}");
    error
}

#[test]
fn what_does_not_fit_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let to = |name: &str| dir.path().join(name);
    let model = data("clef-tiny/model");
    let error =
        refused(run(&model, &to("a"), group(256), u64::MAX), &["group-size", "256", "128", "allowed", "64"]);
    assert!(matches!(error, Error::InvalidRequest { .. }));

    run(&model, &to("done"), group(64), u64::MAX).expect("converted");
    let error = refused(run(&to("done"), &to("b"), group(64), u64::MAX), &["stored as I8 already"]);
    assert!(matches!(error, Error::Checkpoint { .. }));

    let other = data("gliclass-tiny/mt5");
    refused(run(&other, &to("c"), group(64), u64::MAX), &["scheme", "no matrices that may be INT8"]);
    assert!(fs::read_dir(to("c")).expect("the folder").next().is_none(), "nothing is written");
}

#[test]
fn damage_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let source = copy(dir.path());
    let name = "model.language_model.layers.2.mlp.up_proj.weight";
    let path = source.join("model.safetensors");
    let mut bytes = fs::read(&path).expect("the file");
    let (header, tensors) = SafeTensors::read_metadata(&bytes).expect("safetensors");
    let start = 8 + header + tensors.info(name).expect(name).data_offsets.0;
    // Row 5 of 128 columns, the first number.
    let at = start + 5 * 128 * 2;
    bytes[at..at + 2].copy_from_slice(&0x7F80u16.to_le_bytes());
    fs::write(&path, &bytes).expect("written");
    let target = dir.path().join("a");
    refused(run(&source, &target, group(64), u64::MAX), &[name, "row 5", "not finite"]);

    let sums = format!("{}  model.safetensors\n", Digest::of(b"something else"));
    fs::write(source.join("SHA256SUMS"), sums).expect("written");
    let target = dir.path().join("b");
    refused(run(&source, &target, group(64), u64::MAX), &["model.safetensors", "SHA-256"]);

    fs::remove_file(source.join("joint_head.safetensors")).expect("removed");
    fs::remove_file(source.join("SHA256SUMS")).expect("removed");
    let target = dir.path().join("c");
    refused(run(&source, &target, group(64), u64::MAX), &["joint_head", "is not there"]);
}
