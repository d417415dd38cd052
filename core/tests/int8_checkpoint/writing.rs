//! What this program writes of a file of codes: descriptions that it reads again, sums that find a wrong rotation.

use dikast_core::checkpoint::{FileLayout, Int8Layer, Recipe, StoredTensor, StoredType};
use dikast_core::numerics::hadamard::Group;

use crate::build::{Model, ROWS, WIDTH, codes, refused};

fn layer(rotation: Option<Group>) -> Int8Layer {
    let first: Vec<i8> = codes(1, WIDTH).into_iter().map(|b| b as i8).collect();
    Int8Layer::new("m", rotation, &first, 1.0 / 64.0)
}

/// The model with everything that goes into a file of ours.
fn noted(rotation: Option<Group>) -> Model {
    let recipe = Recipe { name: "absmax".to_owned(), version: 1 };
    let notes = Int8Layer::notes(&[layer(rotation)], &recipe).expect("finite");
    let mut model = Model::silent();
    for (key, text) in &notes.metadata {
        model.note(key, text);
    }
    for (name, text) in notes.markers {
        assert_eq!(name, "m.comfy_quant");
        model.mark("m", std::str::from_utf8(&text).expect("JSON"));
    }
    model
}

#[test]
fn notes_are_read_again() {
    for rotation in [None, Group::new(16), Group::new(64)] {
        assert_eq!(noted(rotation).rotation(), rotation.map_or(0, Group::size));
    }
}

#[test]
fn sums_find_what_was_not_written() {
    // Everything says 64, but the codes were rotated in groups of 16, or not at all.
    for wrong in [None, Group::new(4), Group::new(16)] {
        let mut model = noted(Group::new(64));
        let key = "engine_calibration";
        let (_, metadata) = &noted(wrong).weights["model.safetensors"];
        let text = metadata[key].clone();
        model.note(key, &text);
        refused(model.open(), &["m.weight", "check_abs", "rotation"]);
    }
    // One code of the first row.
    let mut model = noted(Group::new(64));
    let mut bytes = codes(ROWS, WIDTH);
    bytes[7] ^= 1;
    model.put("m.weight", safetensors::Dtype::I8, &[ROWS, WIDTH], bytes);
    refused(model.open(), &["m.weight", "check"]);

    for (text, word) in [
        ("{", "not JSON"),
        (r#"{"layers": []}"#, "layers"),
        (r#"{"layers": {"m": {"check": "1"}}}"#, "a number"),
        (r#"{"layers": {"m": {"check": 1e99}}}"#, "recorded"),
    ] {
        let mut model = noted(Group::new(64));
        model.note("engine_calibration", text);
        refused(model.open(), &[word]);
    }
    // Flags of layers that stayed as they were.
    let mut model = noted(Group::new(64));
    model.note("engine_calibration", r#"{"layers": {"gate": {"rescued": true}, "m": {"check": null}}}"#);
    assert_eq!(model.rotation(), 64);
}

#[test]
fn a_file_of_codes_is_laid_out_for_streaming() {
    let tensor =
        |name: &str, dtype, shape: &[usize]| StoredTensor { name: name.into(), dtype, shape: shape.into() };
    let tensors = vec![
        tensor("b", StoredType::BF16, &[3]),
        tensor("s", StoredType::F32, &[1]),
        tensor("m.weight", StoredType::I8, &[1, 8]),
        tensor("a", StoredType::F16, &[1]),
    ];
    let recipe = Recipe { name: "absmax".to_owned(), version: 1 };
    let notes = Int8Layer::notes(&[layer(Group::new(4))], &recipe).expect("finite");
    let layout = FileLayout::quantized(tensors.clone(), &notes).expect("a layout");
    let order: Vec<&str> = layout.tensors().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(order, ["m.weight", "s", "a", "b"]);
    assert_eq!(layout, FileLayout::quantized(tensors.into_iter().rev().collect(), &notes).expect("a layout"));

    let mut file = Vec::new();
    layout.write(&mut file, |t, out| out.write_all(&vec![1; t.bytes() as usize])).expect("written");
    assert_eq!(file.len() as u64, layout.file_bytes());
    let read = safetensors::SafeTensors::deserialize(&file).expect("valid");
    assert_eq!(read.tensor("m.comfy_quant").expect("there").data(), notes.markers["m.comfy_quant"]);
    assert_eq!(read.tensor("b").expect("there").data(), [1; 6]);
    let (_, header) = safetensors::SafeTensors::read_metadata(&file).expect("valid");
    let metadata = header.metadata().as_ref().expect("there");
    assert_eq!(metadata["format"], "pt");
    assert!(metadata.contains_key("_quantization_metadata") && metadata.contains_key("engine_calibration"));
    assert!(FileLayout::new(vec![tensor("x", StoredType::F32, &[1]); 2]).is_err());
}
