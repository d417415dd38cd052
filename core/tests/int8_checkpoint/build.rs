//! A small model in memory that tests change before they open it.

use std::collections::BTreeMap;
use std::sync::Arc;

use dikast_core::checkpoint::{Blob, Checks, Expected, Fused, ModelFiles, SideFile, TensorSpec, Weights};
use dikast_core::{Error, Result};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};

/// Rows and width of the module `m`.
pub(crate) const ROWS: usize = 6;
pub(crate) const WIDTH: usize = 128;

/// The description that most tests use.
pub(crate) const ROTATED: &str = r#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 64}"#;

type Tensor = (Dtype, Vec<usize>, Vec<u8>);
/// Tensors and `__metadata__` of one file.
type WeightFile = (BTreeMap<String, Tensor>, BTreeMap<String, String>);

/// Files by name; weight files as tensors and metadata.
#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) weights: BTreeMap<String, WeightFile>,
    pub(crate) others: BTreeMap<String, Vec<u8>>,
}

pub(crate) fn expected() -> Expected {
    Expected {
        tensors: vec![
            TensorSpec::int8_projection("m", ROWS, WIDTH),
            TensorSpec::int8_projection("gate", 2, 64),
            TensorSpec::int8_projection("up", 4, 64),
            TensorSpec::float("v", [5]),
            TensorSpec::float("head.w", [3]),
        ],
        ignored_prefixes: vec!["mtp.".to_owned()],
        fused: vec![Fused {
            name: "gate_up".to_owned(),
            parts: vec![("gate".to_owned(), 2), ("up".to_owned(), 4)],
        }],
        side_files: vec![SideFile { file: "head.safetensors".to_owned(), prefix: "head.".to_owned() }],
        ..Expected::default()
    }
}

pub(crate) fn bf16(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(|v| half::bf16::from_f32(v).to_le_bytes()).collect()
}

pub(crate) fn f32s(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Codes that differ from place to place.
pub(crate) fn codes(rows: usize, width: usize) -> Vec<u8> {
    (0..rows * width).map(|i| (i * 37 % 251) as u8).collect()
}

impl Model {
    /// `m` as codes with a scale `[rows, 1]`, everything else BF16, the head in its own file; nothing describes `m`.
    pub(crate) fn silent() -> Self {
        let mut model = Self::default();
        model.put("m.weight", Dtype::I8, &[ROWS, WIDTH], codes(ROWS, WIDTH));
        model.put("m.weight_scale", Dtype::F32, &[ROWS, 1], f32s((1..=ROWS).map(|n| n as f32 / 64.0)));
        model.put("gate.weight", Dtype::BF16, &[2, 64], bf16((0..128).map(|i| i as f32)));
        model.put("up.weight", Dtype::BF16, &[4, 64], bf16((0..256).map(|i| -(i as f32))));
        model.put("v", Dtype::F32, &[5], f32s([1.0; 5]));
        model.put_in("head.safetensors", "w", Dtype::BF16, &[3], bf16([1.0, 2.0, 3.0]));
        model
    }

    /// The same with a marker.
    pub(crate) fn marked(text: &str) -> Self {
        let mut model = Self::silent();
        model.mark("m", text);
        model
    }

    pub(crate) fn mark(&mut self, module: &str, text: &str) {
        self.put(&format!("{module}.comfy_quant"), Dtype::U8, &[text.len()], text.as_bytes().to_vec());
    }

    pub(crate) fn put(&mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) {
        self.put_in("model.safetensors", name, dtype, shape, bytes);
    }

    pub(crate) fn put_in(&mut self, file: &str, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) {
        let file = self.weights.entry(file.to_owned()).or_default();
        file.0.insert(name.to_owned(), (dtype, shape.to_vec(), bytes));
    }

    pub(crate) fn take(&mut self, name: &str) -> Tensor {
        let file = self.weights.get_mut("model.safetensors").expect("there");
        file.0.remove(name).expect(name)
    }

    /// Sets a key of the main file's `__metadata__`.
    pub(crate) fn note(&mut self, key: &str, text: &str) {
        let file = self.weights.get_mut("model.safetensors").expect("there");
        file.1.insert(key.to_owned(), text.to_owned());
    }

    pub(crate) fn files(&self) -> ModelFiles {
        let weights = self.weights.iter().map(|(file, (tensors, metadata))| {
            let views = tensors.iter().map(|(name, (dtype, shape, data))| {
                (name, TensorView::new(*dtype, shape.clone(), data).expect("consistent"))
            });
            let metadata = metadata.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            (file.clone(), serialize(views, Some(metadata)).expect("serializable"))
        });
        let others = self.others.iter().map(|(n, b)| (n.clone(), b.clone()));
        let all = weights.chain(others).map(|(n, b)| (n, Blob::Owned(Arc::new(b))));
        ModelFiles::from_memory("test", all)
    }

    pub(crate) fn open(&self) -> Result<Weights> {
        Weights::open(&self.files(), &expected(), Checks::ALL)
    }

    /// The rotation group of `m`, or 0 for codes that are not rotated.
    #[track_caller]
    pub(crate) fn rotation(&self) -> usize {
        let weights = self.open().unwrap_or_else(|e| panic!("{e}"));
        weights.storage("m").expect("there").rotation.map_or(0, |g| g.size())
    }

    /// The message has each of some words in it, whatever is checked.
    #[track_caller]
    pub(crate) fn refused(&self, words: &[&str]) {
        for checks in [Checks::ALL, Checks::HEADERS] {
            refused(Weights::open(&self.files(), &expected(), checks), words);
        }
    }
}

#[track_caller]
pub(crate) fn refused(result: Result<Weights>, words: &[&str]) {
    let error = result.expect_err("must be refused");
    assert!(matches!(error, Error::Checkpoint { .. }), "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}
