//! Scales, biases, fused matrices, and the files that hold a model.

use dikast_core::checkpoint::{Checks, StoredType, Weights};
use safetensors::Dtype;

use crate::build::{Model, ROTATED, ROWS, WIDTH, codes, expected, f32s, refused};

#[test]
fn scales_of_either_rank_and_name() {
    for shape in [&[ROWS][..], &[ROWS, 1]] {
        for name in ["m.weight_scale", "m.scale_weight"] {
            let mut model = Model::marked(ROTATED);
            let scale = model.take("m.weight_scale");
            model.put(name, scale.0, shape, scale.2);
            let weights = model.open().expect("valid");
            let storage = weights.storage("m").expect("there");
            assert_eq!((storage.dtype, storage.bias), (StoredType::I8, None));
            assert_eq!(storage.scale.as_deref(), Some("m.weight_scale"));
            let scale = weights.tensor("m.weight_scale").expect("there");
            assert_eq!(scale.shape, [ROWS, 1]);
            assert_eq!(scale.to_f32()[ROWS - 1], ROWS as f32 / 64.0);
            assert!(weights.find("m.scale_weight").is_none());
        }
    }
    let weights = Model::marked(ROTATED).open().expect("valid");
    let plain = weights.storage("gate").expect("there");
    assert_eq!((plain.dtype, plain.scale, plain.rotation), (StoredType::BF16, None, None));
    assert!(weights.storage("nothing").is_err());
}

#[test]
fn scales_that_are_refused() {
    let with = |dtype, shape: &[usize], bytes, text: &str| {
        let mut model = Model::marked(text);
        model.put("m.weight_scale", dtype, shape, bytes);
        model
    };
    let plain = r#"{"format": "int8_tensorwise"}"#;
    for shape in [&[][..], &[1], &[1, 1]] {
        with(Dtype::F32, shape, f32s([0.5]), ROTATED).refused(&[
            "m.weight_scale",
            "one scale for 6 rows",
            "rotated",
        ]);
        with(Dtype::F32, shape, f32s([0.5]), plain).refused(&[
            "m.weight_scale",
            "one scale for 6 rows",
            "[6, 1]",
        ]);
    }
    with(Dtype::F32, &[1, ROWS], f32s([0.5; ROWS]), ROTATED).refused(&["m.weight_scale", "[1, 6]", "[6, 1]"]);
    with(Dtype::BF16, &[ROWS, 1], [0x80, 0x3F].repeat(ROWS), ROTATED).refused(&[
        "m.weight_scale",
        "BF16",
        "F32",
    ]);
    for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let mut scales = [0.5; ROWS];
        scales[3] = bad;
        refused(with(Dtype::F32, &[ROWS], f32s(scales), ROTATED).open(), &["m.weight_scale", "index 3"]);
    }
    let mut model = Model::marked(ROTATED);
    model.take("m.weight_scale");
    model.refused(&["1 tensor missing", "m.weight_scale", "m.weight is I8"]);
    let mut model = Model::marked(ROTATED);
    model.put("m.scale_weight", Dtype::F32, &[ROWS], f32s([1.0; ROWS]));
    model.refused(&["m.scale_weight", "m.weight_scale is there too"]);
    let mut model = Model::marked(ROTATED);
    model.put("gate.weight_scale", Dtype::F32, &[2], f32s([1.0; 2]));
    model.refused(&["gate.weight_scale", "gate.weight is BF16"]);
}

#[test]
fn a_bias_may_be_there() {
    for dtype in [Dtype::F32, Dtype::BF16] {
        let mut model = Model::marked(ROTATED);
        let bytes = if dtype == Dtype::F32 { f32s([0.5; ROWS]) } else { [0, 0x3F].repeat(ROWS) };
        model.put("m.bias", dtype, &[ROWS], bytes);
        let weights = model.open().expect("valid");
        let storage = weights.storage("m").expect("there");
        assert_eq!(storage.bias.as_deref(), Some("m.bias"));
        assert_eq!(weights.tensor("m.bias").expect("there").to_f32(), [0.5; ROWS]);
    }
    let mut model = Model::marked(ROTATED);
    model.put("m.bias", Dtype::F32, &[ROWS, 1], f32s([0.5; ROWS]));
    model.refused(&["m.bias", "[6, 1]"]);
    let mut model = Model::marked(ROTATED);
    model.put("gate.bias", Dtype::F32, &[2], f32s([0.5; 2]));
    model.refused(&["gate.bias", "gate.weight is BF16"]);
}

#[test]
fn codes_of_minus_128_are_codes() {
    let mut model = Model::marked(ROTATED);
    model.put("m.weight", Dtype::I8, &[ROWS, WIDTH], vec![0x80; ROWS * WIDTH]);
    assert_eq!(model.rotation(), 64);
}

/// Gate and up in one matrix, as codes.
fn fused(scale: &[usize]) -> Model {
    let mut model = Model::marked(ROTATED);
    model.take("gate.weight");
    model.take("up.weight");
    model.put("gate_up.weight", Dtype::I8, &[6, 64], codes(6, 64));
    model.put("gate_up.weight_scale", Dtype::F32, scale, f32s((1..=6).map(|n| n as f32)));
    model.put("gate_up.bias", Dtype::F32, &[6], f32s((1..=6).map(|n| -(n as f32))));
    model
}

#[test]
fn a_fused_matrix_is_taken_apart() {
    for (scale, described) in [(&[6][..], "marker"), (&[6, 1], "header"), (&[6], "size")] {
        let mut model = fused(scale);
        match described {
            "marker" => model.mark("gate_up", ROTATED),
            "header" => {
                model.note("_quantization_metadata", &format!(r#"{{"layers": {{"gate_up": {ROTATED}}}}}"#));
            }
            _ => model.put("gate_up.int8_convrot_groupsize", Dtype::I32, &[], 64i32.to_le_bytes().to_vec()),
        }
        let weights = model.open().unwrap_or_else(|e| panic!("{described}: {e}"));
        let all = codes(6, 64);
        for (module, rows) in [("gate", 0..2), ("up", 2..6)] {
            let storage = weights.storage(module).expect("there");
            assert_eq!(storage.rotation.map(|g| g.size()), Some(64), "{module}");
            let tensor = |part: &str| weights.tensor(&format!("{module}.{part}")).expect("there");
            assert_eq!(tensor("weight").shape, [rows.len(), 64]);
            assert_eq!(tensor("weight").bytes, &all[rows.start * 64..rows.end * 64]);
            let numbers: Vec<f32> = rows.clone().map(|n| n as f32 + 1.0).collect();
            assert_eq!(
                (tensor("weight_scale").shape, tensor("weight_scale").to_f32()),
                (&[rows.len(), 1][..], numbers)
            );
            assert_eq!(tensor("bias").to_f32()[0], -(rows.start as f32 + 1.0));
        }
        assert!(weights.find("gate_up.weight").is_none());
    }
}

#[test]
fn a_fused_matrix_that_does_not_fit() {
    let mut model = fused(&[6]);
    model.refused(&["gate.weight, up.weight", "rotated"]);
    model.mark("gate_up", ROTATED);
    let mut both = model.clone();
    both.put("up.weight", Dtype::I8, &[4, 64], codes(4, 64));
    both.refused(&["gate_up.weight", "up.weight is there too"]);
    let mut rows = model.clone();
    rows.put("gate_up.weight", Dtype::I8, &[5, 64], codes(5, 64));
    rows.refused(&["gate_up.weight", "5 rows", "6"]);
    let mut scalar = model.clone();
    scalar.put("gate_up.weight_scale", Dtype::F32, &[], f32s([1.0]));
    scalar.refused(&["gate_up.weight_scale", "a scalar"]);
    let mut width = model.clone();
    width.put("gate_up.weight", Dtype::I8, &[6, 32], codes(6, 32));
    width.refused(&["32"]);
}

#[test]
fn a_side_file_or_a_prefix() {
    let open = |model: &Model| model.open().expect("valid").tensor("head.w").expect("there").to_f32();
    let mut model = Model::marked(ROTATED);
    assert_eq!(open(&model), [1.0, 2.0, 3.0]);
    assert_eq!(model.open().expect("valid").files().count(), 2);

    // Under the prefix in the main file, or in the side file itself.
    let (head, _) = model.weights.remove("head.safetensors").expect("there");
    let (dtype, shape, bytes) = head["w"].clone();
    refused(model.open(), &["head.w", "head.safetensors is not there"]);
    let mut prefixed = model.clone();
    prefixed.put_in("head.safetensors", "head.w", dtype, &shape, bytes.clone());
    assert_eq!(open(&prefixed), [1.0, 2.0, 3.0]);
    model.put("head.w", dtype, &shape, bytes.clone());
    assert_eq!(open(&model), [1.0, 2.0, 3.0]);

    model.put_in("head.safetensors", "w", dtype, &shape, bytes);
    model.refused(&["head.w", "both in head.safetensors and in model.safetensors"]);
}

#[test]
fn shards_and_a_side_file() {
    let mut model = Model::marked(ROTATED);
    let (tensors, _) = model.weights.remove("model.safetensors").expect("there");
    let mut map = serde_json::Map::new();
    for (i, (name, tensor)) in tensors.into_iter().enumerate() {
        let file = format!("model-0000{}-of-00002.safetensors", i % 2 + 1);
        map.insert(name.clone(), file.clone().into());
        model.put_in(&file, &name, tensor.0, &tensor.1, tensor.2);
    }
    let index = |map: &serde_json::Map<String, serde_json::Value>| {
        serde_json::json!({"metadata": {}, "weight_map": map}).to_string().into_bytes()
    };
    const INDEX: &str = "model.safetensors.index.json";
    model.others.insert(INDEX.into(), index(&map));
    assert_eq!(model.rotation(), 64);
    let weights = model.open().expect("valid");
    assert_eq!(weights.files().map(|(n, _)| n).collect::<Vec<_>>().len(), 3);

    // An index may list the side file too.
    map.insert("w".to_owned(), "head.safetensors".into());
    model.others.insert(INDEX.into(), index(&map));
    assert_eq!(model.open().expect("valid").tensor("head.w").expect("there").shape, [3]);
    map.insert("w2".to_owned(), "head.safetensors".into());
    model.others.insert(INDEX.into(), index(&map));
    model.refused(&[INDEX, "w2 in head.safetensors"]);
}

#[test]
fn what_does_not_matter_is_left_alone() {
    let mut model = Model::marked(ROTATED);
    model.put("mtp.layers.0.weight", Dtype::I8, &[3], codes(1, 3));
    assert_eq!(model.rotation(), 64);
    model.put("other", Dtype::I8, &[3], codes(1, 3));
    refused(model.open(), &["other", "mtp.*"]);
}

#[test]
fn headers_alone_are_enough_to_know_the_layout() {
    let weights =
        Weights::open(&Model::marked(ROTATED).files(), &expected(), Checks::HEADERS).expect("valid");
    assert_eq!(weights.storage("m").expect("there").rotation.map(|g| g.size()), Some(64));
}
