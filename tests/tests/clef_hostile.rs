//! CLEF checkpoints whose parts do not belong together: each is refused as a whole, with the reason.

use std::collections::HashMap;
use std::fs;

use dikast_core::checkpoint::{Blob, ModelFiles};
use dikast_core::models::clef::Clef;
use dikast_tests::clef::folder;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize};

const MODULE: &str = "model.language_model.layers.0.mlp.down_proj";

/// The tiny checkpoint's files by name.
fn tiny() -> HashMap<String, Vec<u8>> {
    let files = fs::read_dir(folder().join("model")).expect("the fixture");
    files
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read(path).expect("a file"))
        })
        .collect()
}

fn load(files: HashMap<String, Vec<u8>>) -> Result<Clef, String> {
    let blobs = files.into_iter().map(|(name, bytes)| (name, Blob::Owned(bytes.into())));
    Clef::load(&ModelFiles::from_memory("tiny", blobs)).map_err(|e| e.to_string())
}

fn refused(files: HashMap<String, Vec<u8>>, parts: &[&str]) {
    let error = load(files).expect_err("it must not load");
    for part in parts {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// The file with a number of its JSON replaced.
fn with_number(
    mut files: HashMap<String, Vec<u8>>,
    name: &str,
    key: &str,
    value: u64,
) -> HashMap<String, Vec<u8>> {
    let mut json: serde_json::Value = serde_json::from_slice(&files[name]).expect("JSON");
    assert!(json[key].is_number(), "{key}");
    json[key] = value.into();
    files.insert(name.to_owned(), json.to_string().into_bytes());
    files
}

#[test]
fn the_base_of_the_changes_loads() {
    load(tiny()).expect("the fixture loads");
}

#[test]
fn a_head_of_another_backbone() {
    // The head's configuration says so.
    let files = with_number(tiny(), "joint_head_config.json", "hidden_size", 64);
    refused(files, &["joint_head_config.json", "hidden_size", "64"]);
    // Only its tensors do: a head whose rows are as wide as those of another backbone.
    let mut files = tiny();
    let head = files["joint_head.safetensors"].clone();
    let all = SafeTensors::deserialize(&head).expect("a head");
    let (name, view) = all
        .tensors()
        .into_iter()
        .find(|(_, view)| view.shape().len() == 2 && view.shape()[1] > 1)
        .expect("a matrix");
    let narrow: Vec<u8> = vec![0; view.data().len() / 2];
    let shape = vec![view.shape()[0], view.shape()[1] / 2];
    let changed = TensorView::new(view.dtype(), shape, &narrow).expect("a tensor");
    let tensors =
        all.tensors().into_iter().map(|(n, v)| if n == name { (n, changed.clone()) } else { (n, v) });
    files.insert("joint_head.safetensors".to_owned(), serialize(tensors, None).expect("a file"));
    refused(files, &[&name]);
}

#[test]
fn a_head_that_is_not_there() {
    for name in ["joint_head_config.json", "joint_head.safetensors"] {
        let mut files = tiny();
        files.remove(name);
        refused(files, &["joint_head"]);
    }
}

/// The checkpoint with one projection as INT8 codes; `marker` describes them, if anything does.
fn with_codes(marker: Option<&str>) -> HashMap<String, Vec<u8>> {
    let mut files = tiny();
    let model = files["model.safetensors"].clone();
    let all = SafeTensors::deserialize(&model).expect("a model");
    let weight = format!("{MODULE}.weight");
    let shape = all.tensor(&weight).expect("the projection").shape().to_vec();
    let codes: Vec<u8> = (0..shape.iter().product()).map(|i: usize| (i % 251) as u8).collect();
    let scales: Vec<u8> = (0..shape[0]).flat_map(|_| 0.01_f32.to_le_bytes()).collect();
    let codes = TensorView::new(Dtype::I8, shape.clone(), &codes).expect("codes");
    let scales = TensorView::new(Dtype::F32, vec![shape[0], 1], &scales).expect("scales");
    let mut tensors: Vec<(String, TensorView<'_>)> =
        all.tensors().into_iter().filter(|(name, _)| *name != weight).collect();
    tensors.push((weight, codes));
    tensors.push((format!("{MODULE}.weight_scale"), scales));
    if let Some(marker) = marker {
        let marker = TensorView::new(Dtype::U8, vec![marker.len()], marker.as_bytes()).expect("a marker");
        tensors.push((format!("{MODULE}.comfy_quant"), marker));
    }
    files.insert("model.safetensors".to_owned(), serialize(tensors, None).expect("a file"));
    files
}

#[test]
fn codes_that_nothing_describes() {
    let rotated = r#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 64}"#;
    let model = load(with_codes(Some(rotated))).expect("described codes load");
    assert!(model.format().contains("INT8 ConvRot"), "{}", model.format());
    refused(with_codes(None), &[MODULE]);
    let other = r#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 32}"#;
    refused(with_codes(Some(other)), &[MODULE, "32"]);
}
