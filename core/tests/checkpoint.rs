//! Opening checkpoints: the fixtures, and what must be refused.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use dikast_core::checkpoint::{Blob, Checks, Digest, Expected, ModelFiles, StoredType, Weights};
use dikast_core::models::gliclass::{GliClassConfig, Part, expected_tensors, part_sizes};
use dikast_core::{Error, Result};
use safetensors::Dtype;
use safetensors::tensor::{SafeTensors, TensorView, serialize};

const TABLE: &str = "model.encoder_model.shared.weight";
const TABLE_ALIAS: &str = "model.encoder_model.encoder.embed_tokens.weight";
const PROJECTION: &str = "model.encoder_model.encoder.block.0.layer.0.SelfAttention.q";

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/gliclass-tiny")).join(name)
}

fn config(name: &str) -> Result<GliClassConfig> {
    let bytes = std::fs::read(fixture(name).join("config.json")).expect("fixture");
    GliClassConfig::from_json(&bytes)
}

/// Tensors of a checkpoint that a test changes before writing it again.
#[derive(Clone)]
struct Model {
    expected: Expected,
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
}

impl Model {
    fn fixture(name: &str) -> Self {
        let bytes = std::fs::read(fixture(name).join("model.safetensors")).expect("fixture");
        let file = SafeTensors::deserialize(&bytes).expect("fixture");
        let owned = |t: TensorView<'_>| (t.dtype(), t.shape().to_vec(), t.data().to_vec());
        let tensors = file.tensors().into_iter().map(|(name, t)| (name, owned(t))).collect();
        Self { expected: expected_tensors(&config(name).expect("supported")), tensors }
    }

    fn file(&self, keep: impl Fn(&str) -> bool) -> Vec<u8> {
        let views = self.tensors.iter().filter(|(name, _)| keep(name)).map(|(name, (dtype, shape, data))| {
            (name.as_str(), TensorView::new(*dtype, shape.clone(), data).expect("consistent"))
        });
        serialize(views, None).expect("serializable")
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        vec![("model.safetensors".to_owned(), self.file(|_| true))]
    }

    /// Two shards and their index.
    fn shards(&self) -> Vec<(String, Vec<u8>)> {
        let second = |name: &str| name.contains("block.1.");
        let map: BTreeMap<&str, &str> = self
            .tensors
            .keys()
            .map(|n| (n.as_str(), if second(n) { "b.safetensors" } else { "a.safetensors" }))
            .collect();
        let index = serde_json::json!({"metadata": {"total_size": 1}, "weight_map": map});
        vec![
            ("a.safetensors".to_owned(), self.file(|n| !second(n))),
            ("b.safetensors".to_owned(), self.file(second)),
            ("model.safetensors.index.json".to_owned(), index.to_string().into_bytes()),
        ]
    }

    fn open(&self) -> Result<Weights> {
        open(self.files(), &self.expected)
    }

    fn get(&mut self, name: &str) -> &mut (Dtype, Vec<usize>, Vec<u8>) {
        self.tensors.get_mut(name).expect(name)
    }

    fn rename(&mut self, from: &str, to: &str) {
        let tensor = self.tensors.remove(from).expect(from);
        self.tensors.insert(to.to_owned(), tensor);
    }
}

fn memory(files: Vec<(String, Vec<u8>)>) -> ModelFiles {
    ModelFiles::from_memory("test", files.into_iter().map(|(n, b)| (n, Blob::Owned(Arc::from(b)))))
}

fn open(files: Vec<(String, Vec<u8>)>, expected: &Expected) -> Result<Weights> {
    Weights::open(&memory(files), expected, Checks::ALL)
}

/// The message of an [`Error::Checkpoint`] with each of some words in it.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, words: &[&str]) {
    let error = result.expect_err("must be refused");
    assert!(matches!(error, Error::Checkpoint { .. }), "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

#[test]
fn every_supported_fixture_opens() {
    let variants = [
        "simple-avg-textfirst",
        "simple-normalized",
        "simple-rms-textfeat",
        "weighted-dot-first",
        "mlp-last",
        "mlp-segments-avgclass",
        "hopfield-max",
        "cross-attn-alltext",
        "lstm-simple-max",
    ]
    .map(|v| format!("variants/{v}"));
    for name in variants.into_iter().chain(["mt5".to_owned(), "mt5-fp8".to_owned()]) {
        let config = config(&name).expect(&name);
        let files = ModelFiles::open(fixture(&name)).expect(&name);
        let weights = Weights::open(&files, &expected_tensors(&config), Checks::ALL).expect(&name);

        let bytes = std::fs::read(fixture(&name).join("model.safetensors")).expect("fixture");
        let file = SafeTensors::deserialize(&bytes).expect("fixture");
        assert_eq!(weights.iter().count(), file.len(), "{name}");
        for (tensor, view) in weights.iter() {
            let stored = file.tensor(tensor).expect(tensor);
            assert_eq!((view.shape, view.bytes), (stored.shape(), stored.data()), "{name} {tensor}");
        }
        assert!(weights.iter().map(|(n, _)| n).is_sorted());
        assert_eq!(weights.metadata()["format"], "pt");
        assert_eq!(weights.digest(), Digest::of(&bytes));
        let parts = part_sizes(&weights);
        assert_eq!(parts.iter().map(|p| p.bytes).sum::<u64>(), weights.total_bytes());
    }
}

#[test]
fn the_quantized_fixture_has_its_scales() {
    let files = ModelFiles::open(fixture("mt5-fp8")).expect("fixture");
    assert_eq!(files.name(), "mt5-fp8");
    let weights =
        Weights::open(&files, &expected_tensors(&config("mt5-fp8").expect("valid")), Checks::HEADERS)
            .expect("valid");
    let weight = weights.tensor(&format!("{PROJECTION}.weight")).expect("there");
    let scale = weights.tensor(&format!("{PROJECTION}.weight_scale")).expect("there");
    assert_eq!((weight.dtype, scale.dtype), (StoredType::F8E4M3, StoredType::BF16));
    assert_eq!((weight.shape, scale.shape), (&[128, 128][..], &[128, 1][..]));
    assert!(weights.find("model.scorer.q.weight_scale").is_none());
    assert!(matches!(weights.tensor("nothing"), Err(Error::Internal(_))));
    let [table, projections, scales, norms, heads] = part_sizes(&weights);
    assert_eq!((table.part, table.tensors, table.bytes), (Part::Embedding, 1, 2043 * 128 * 2));
    assert_eq!((projections.tensors, scales.tensors, norms.tensors, heads.tensors), (28, 28, 10, 29));
}

#[test]
fn unsupported_fixtures_are_named() {
    for (name, word) in [
        ("deberta-simple-avg", "deberta-v2"),
        ("modernbert-mlp-first", "modernbert"),
        ("modernbert-crossattn", "modernbert"),
        ("bi-encoder", "bi-encoder"),
        ("bi-encoder-fused", "bi-encoder-fused"),
    ] {
        let error = config(&format!("variants/{name}")).expect_err(name);
        assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(word), "{error}");
    }
}

#[test]
fn missing_and_unexpected_tensors_come_in_one_message() {
    let mut m = Model::fixture("variants/simple-normalized");
    for i in 0..7 {
        m.tensors.insert(format!("extra.{i}"), (Dtype::I64, vec![], vec![0; 8]));
    }
    m.rename("model.logit_scale", "model.\u{1b}[31mlogit");
    m.tensors.remove("model.text_projector.linear_1.bias").expect("there");
    let words = [
        "2 tensors missing: model.text_projector.linear_1.bias, model.logit_scale",
        "8 tensors not expected: extra.0, extra.1, extra.2, extra.3, extra.4 and 3 more",
        "allowed besides the model's own: position_embeddings",
    ];
    refused(m.open(), &words);
    let mut m = Model::fixture("variants/simple-normalized");
    m.rename("model.logit_scale", "\u{1b}[31m");
    refused(m.open(), &[r"1 tensor not expected: \u{1b}[31m"]);
}

#[test]
fn position_embeddings_are_ignored() {
    let mut m = Model::fixture("variants/simple-normalized");
    m.tensors.insert("position_embeddings".to_owned(), (Dtype::I64, vec![1], vec![0xFF; 8]));
    let weights = m.open().expect("ignored");
    assert!(weights.find("position_embeddings").is_none());
}

#[test]
fn types_and_shapes_are_exact() {
    let mut m = Model::fixture("variants/simple-normalized");
    m.get("model.text_projector.linear_1.weight").1 = vec![16, 64];
    refused(m.open(), &["model.text_projector.linear_1.weight: shape [16, 64] found, allowed: [32, 32]"]);

    let mut m = Model::fixture("variants/simple-normalized");
    m.get("model.logit_scale").1 = vec![1];
    refused(m.open(), &["model.logit_scale: shape [1] found, allowed: []"]);
    m.get("model.logit_scale").1 = vec![1; 100];
    refused(m.open(), &["shape of 100 dimensions"]);

    // Only the encoder's projections may be quantized.
    let mut m = Model::fixture("variants/simple-normalized");
    let (dtype, shape, data) = m.get("model.text_projector.linear_1.weight");
    (*dtype, *data) = (Dtype::F8_E4M3, vec![0; shape.iter().product()]);
    refused(m.open(), &["model.text_projector.linear_1.weight: stored as F8_E4M3, allowed: F32, F16, BF16"]);
    for dtype in [Dtype::I16, Dtype::U16] {
        let mut m = Model::fixture("variants/simple-normalized");
        m.get(&format!("{PROJECTION}.weight")).0 = dtype;
        refused(m.open(), &["q.weight: stored as", "allowed: F32, F16, BF16, F8_E4M3"]);
    }
}

#[test]
fn float_types_may_be_mixed() {
    let mut m = Model::fixture("variants/simple-normalized");
    for (name, dtype, bytes) in
        [("model.logit_scale", Dtype::F32, 4), ("model.classes_projector.linear_1.bias", Dtype::F16, 2)]
    {
        let tensor = m.get(name);
        *tensor = (dtype, tensor.1.clone(), vec![0; tensor.1.iter().product::<usize>() * bytes]);
    }
    let weights = m.open().expect("valid");
    assert_eq!(weights.tensor("model.logit_scale").expect("there").to_f32(), [0.0]);
}

#[test]
fn scales_come_with_quantized_weights_and_only_with_them() {
    let name = format!("{PROJECTION}.weight_scale");
    let mut m = Model::fixture("mt5-fp8");
    m.tensors.remove(&name).expect("there");
    refused(m.open(), &[&format!("1 tensor missing: {name} ({PROJECTION}.weight is F8_E4M3)")]);

    let mut m = Model::fixture("mt5");
    m.tensors.insert(name.clone(), (Dtype::BF16, vec![128, 1], [0x80, 0x3F].repeat(128)));
    refused(m.open(), &[&format!("1 tensor not expected: {name} ({PROJECTION}.weight is BF16)")]);

    let mut m = Model::fixture("mt5-fp8");
    m.get(&name).1 = vec![128];
    refused(m.open(), &["weight_scale: shape [128] found, allowed: [128, 1]"]);
    *m.get(&name) = (Dtype::F16, vec![128, 1], vec![0; 256]);
    refused(m.open(), &["weight_scale: stored as F16, allowed: BF16, F32"]);
    *m.get(&name) = (Dtype::F32, vec![128, 1], 1f32.to_le_bytes().repeat(128));
    m.open().expect("F32 scales are allowed");
}

#[test]
fn bad_values_are_found() {
    let cases: [(&str, usize, [u8; 2], &str); 5] = [
        ("model.scorer.v.weight", 77, [0xC0, 0x7F], "NaN"),
        (TABLE, 2043 * 128 - 1, [0x80, 0xFF], "-inf"),
        (&format!("{PROJECTION}.weight_scale"), 5, [0, 0], "0 found"),
        (&format!("{PROJECTION}.weight_scale"), 6, [0x80, 0xBF], "-1 found"),
        (&format!("{PROJECTION}.weight_scale"), 7, [0x80, 0x7F], "inf found"),
    ];
    for (name, index, bits, word) in cases {
        let mut m = Model::fixture("mt5-fp8");
        m.get(name).2[index * 2..][..2].copy_from_slice(&bits);
        refused(m.open(), &[name, word, &format!("at index {index}"), "allowed: finite numbers"]);
        Weights::open(&memory(m.files()), &m.expected, Checks::HEADERS).expect("not looked at");
    }
    for code in [0x7F, 0xFF] {
        let mut m = Model::fixture("mt5-fp8");
        let name = format!("{PROJECTION}.weight");
        m.get(&name).2[1000] = code;
        refused(m.open(), &[&name, "NaN found at index 1000"]);
    }
}

#[test]
fn the_shared_table_has_two_names() {
    let mut m = Model::fixture("variants/simple-normalized");
    m.rename(TABLE, TABLE_ALIAS);
    let weights = m.open().expect("the other name");
    let table = weights.tensor(TABLE).expect("there").bytes;
    assert_eq!(weights.tensor(TABLE_ALIAS).expect("there").bytes, table);

    let copy = m.tensors[TABLE_ALIAS].clone();
    m.tensors.insert(TABLE.to_owned(), copy);
    m.open().expect("both, equal");
    *m.get(TABLE_ALIAS).2.last_mut().expect("not empty") ^= 1;
    refused(m.open(), &[TABLE_ALIAS, TABLE, "differs"]);

    m.tensors.remove(TABLE);
    m.tensors.remove(TABLE_ALIAS);
    refused(m.open(), &[&format!("1 tensor missing: {TABLE}")]);
}

#[test]
fn shards() {
    let m = Model::fixture("variants/simple-normalized");
    let weights = open(m.shards(), &m.expected).expect("valid");
    assert_eq!(weights.files().map(|(n, _)| n).collect::<Vec<_>>(), ["a.safetensors", "b.safetensors"]);
    let single = m.open().expect("valid");
    for ((name, a), (other, b)) in weights.iter().zip(single.iter()) {
        assert_eq!((name, a.bytes), (other, b.bytes));
    }
    let lines = weights.files().map(|(n, b)| format!("{}  {n}\n", Digest::of(b.bytes()))).collect::<String>();
    assert_eq!(weights.digest(), Digest::of(lines.as_bytes()));

    let index = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut files = m.shards();
        let mut index: serde_json::Value = serde_json::from_slice(&files[2].1).expect("JSON");
        change(&mut index);
        files[2].1 = index.to_string().into_bytes();
        open(files, &m.expected)
    };
    refused(
        index(&|i| i["weight_map"]["x"] = "a.safetensors".into()),
        &["1 listed but not there: x in a.safetensors"],
    );
    refused(
        index(&|i| i["weight_map"]["model.logit_scale"] = "b.safetensors".into()),
        &["not there: model.logit_scale in b.safetensors", "not listed: model.logit_scale in a.safetensors"],
    );
    let remove = |i: &mut serde_json::Value| {
        i["weight_map"].as_object_mut().expect("object").remove("model.logit_scale");
    };
    refused(index(&remove), &["1 there but not listed: model.logit_scale in a.safetensors"]);
    refused(index(&|i| i["weight_map"]["x"] = "c.safetensors".into()), &["c.safetensors: file not found"]);
    for name in
        ["../a.safetensors", "/a.safetensors", "d/a.safetensors", "d\\a.safetensors", "a.bin", "..", ""]
    {
        refused(
            index(&|i| i["weight_map"]["x"] = name.into()),
            &["weight_map.x", "plain *.safetensors name"],
        );
    }
    for bad in [serde_json::json!(1), serde_json::json!({}), serde_json::json!(null)] {
        refused(index(&|i| i["weight_map"] = bad.clone()), &["index.json", "weight_map"]);
    }
    refused(index(&|i| i["weight_map"]["x"] = 1.into()), &["weight_map.x"]);

    let mut both = m.shards();
    both.extend(m.files());
    refused(open(both, &m.expected), &["model.safetensors is there too"]);
}

#[test]
fn sums() {
    let m = Model::fixture("variants/simple-normalized");
    let bytes = m.file(|_| true);
    let sum = Digest::of(&bytes);
    let with = |list: String| {
        let mut files = m.files();
        files.push(("SHA256SUMS".to_owned(), list.into_bytes()));
        open(files, &m.expected)
    };
    let other = Digest::of(b"").to_string();
    let weights = with(format!("{sum}  model.safetensors\n{other}  absent.bin\n")).expect("right");
    assert_eq!(weights.digest(), sum);
    with(format!("{other}  absent.bin\n")).expect("not listed");
    refused(
        with(format!("{other}  model.safetensors\n")),
        &["model.safetensors: SHA-256 is", &sum.to_string(), &other],
    );
    refused(with(format!("{sum} model.safetensors\n")), &["SHA256SUMS: line 1"]);

    let mut files = m.files();
    files.push(("SHA256SUMS".to_owned(), format!("{other}  config.json\n").into_bytes()));
    files.push(("config.json".to_owned(), b"{}".to_vec()));
    let files = memory(files);
    refused(files.read("config.json"), &["config.json: SHA-256 is", &other]);
    refused(files.read("tokenizer.json"), &["tokenizer.json: file not found in model test"]);
    files.read("model.safetensors").expect("not listed");
}

#[test]
fn directories() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let missing = dir.path().join("missing");
    let error = ModelFiles::open(&missing).expect_err("missing");
    assert!(matches!(&error, Error::Io { path, .. } if *path == missing.display().to_string()), "{error}");

    for name in
        ["config.json", "SHA256SUMS", "tokenizer.json", "spiece.model", "README.md", "pytorch_model.bin"]
    {
        std::fs::write(dir.path().join(name), name).expect("written");
    }
    std::fs::write(dir.path().join("model.safetensors"), b"").expect("written");
    std::fs::create_dir(dir.path().join("directory.json")).expect("made");
    let files = ModelFiles::open(dir.path()).expect("readable");
    let names = ["SHA256SUMS", "config.json", "model.safetensors", "tokenizer.json"];
    assert_eq!(files.names().collect::<Vec<_>>(), names);
    assert_eq!(files.get("config.json").expect("there").bytes(), b"config.json");
    refused(
        Weights::open(&files, &Expected::default(), Checks::HEADERS),
        &["model.safetensors", "0 bytes found"],
    );

    #[cfg(unix)]
    {
        let target = fixture("mt5/model.safetensors");
        std::fs::remove_file(dir.path().join("model.safetensors")).expect("removed");
        std::os::unix::fs::symlink(&target, dir.path().join("model.safetensors")).expect("linked");
        let files = ModelFiles::open(dir.path()).expect("readable");
        let blob = files.get("model.safetensors").expect("a link to a file is a file");
        assert!(matches!(blob, Blob::Mapped(_)));
        std::os::unix::fs::symlink("nowhere", dir.path().join("foreign.json")).expect("linked");
        ModelFiles::open(dir.path()).expect("no file of the model");
        std::os::unix::fs::symlink("nowhere", dir.path().join("provenance.json")).expect("linked");
        let error = ModelFiles::open(dir.path()).expect_err("broken link").to_string();
        assert!(error.contains("provenance.json: "), "{error}");
        std::fs::remove_file(dir.path().join("provenance.json")).expect("removed");
    }

    let large = |name: &str, bytes: u64| {
        let file = std::fs::File::create(dir.path().join(name)).expect("made");
        file.set_len(bytes).expect("a file of holes");
    };
    large("foreign2.json", 300 << 20);
    ModelFiles::open(dir.path()).expect("no file of the model");
    large("config.json", (16 << 20) + 1);
    let error = ModelFiles::open(dir.path()).expect_err("too large");
    assert!(matches!(error, Error::TooLarge { limit: 0x100_0000, actual: 0x100_0001, .. }), "{error}");
    large("config.json", 2);
    std::fs::remove_file(dir.path().join("SHA256SUMS")).expect("removed");
    std::fs::create_dir(dir.path().join("SHA256SUMS")).expect("made");
    refused(ModelFiles::open(dir.path()), &["SHA256SUMS: not a file"]);
}

#[test]
fn tensors_need_no_alignment() {
    // A header of odd length moves every tensor to an odd address or its neighbour.
    let m = Model::fixture("variants/simple-normalized");
    let plain = m.file(|_| true);
    let length = u64::from_le_bytes(plain[..8].try_into().expect("8 bytes")) as usize;
    let mut odd = ((length + 1) as u64).to_le_bytes().to_vec();
    odd.extend_from_slice(&plain[8..8 + length]);
    odd.push(b' ');
    odd.extend_from_slice(&plain[8 + length..]);
    let odd = open(vec![("model.safetensors".to_owned(), odd)], &m.expected).expect("valid");
    let plain = m.open().expect("valid");
    for ((_, a), (_, b)) in odd.iter().zip(plain.iter()) {
        assert_eq!(a.to_f32(), b.to_f32());
    }
}
