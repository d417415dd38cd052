//! Who may say how codes are rotated, and what they may say.

use safetensors::Dtype;

use crate::build::{Model, ROTATED, ROWS, WIDTH, bf16, codes, f32s};

fn header(text: &str) -> String {
    format!(r#"{{"format_version": "1.0", "layers": {{"m": {text}}}}}"#)
}

#[test]
fn each_source_alone() {
    assert_eq!(Model::marked(ROTATED).rotation(), 64);

    let mut model = Model::silent();
    model.note("_quantization_metadata", &header(ROTATED));
    assert_eq!(model.rotation(), 64);

    let mut model = Model::silent();
    model
        .others
        .insert("config.json".into(), format!(r#"{{"quantization_config": {ROTATED}}}"#).into_bytes());
    assert_eq!(model.rotation(), 64);

    let mut model = Model::silent();
    let text = r#"{"quant_method": "int8_tensorwise", "convrot": true, "convrot_groupsize": 16}"#;
    model.others.insert("quantization_config.json".into(), text.into());
    assert_eq!(model.rotation(), 16);

    for shape in [&[][..], &[1]] {
        let mut model = Model::silent();
        let scale = model.take("m.weight_scale");
        model.put("m.scale_weight", scale.0, &scale.1, scale.2);
        model.put("m.int8_convrot_groupsize", Dtype::I32, shape, 64i32.to_le_bytes().to_vec());
        assert_eq!(model.rotation(), 64);
    }
}

#[test]
fn several_that_agree() {
    let mut model = Model::marked(ROTATED);
    model.note("_quantization_metadata", &header(ROTATED));
    model
        .others
        .insert("config.json".into(), format!(r#"{{"quantization_config": {ROTATED}}}"#).into_bytes());
    model.put("m.int8_convrot_groupsize", Dtype::I32, &[], 64i32.to_le_bytes().to_vec());
    assert_eq!(model.rotation(), 64);
    // Somebody else's method says nothing about codes.
    let other =
        br#"{"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized"}}"#;
    model.others.insert("config.json".into(), other.to_vec());
    assert_eq!(model.rotation(), 64);
}

#[test]
fn what_a_description_may_say() {
    let plain = r#"{"format": "int8_tensorwise"}"#;
    assert_eq!(Model::marked(plain).rotation(), 0);
    assert_eq!(Model::marked(r#"{"format":"int8_tensorwise","convrot":false,"per_row":true}"#).rotation(), 0);
    let nested =
        r#"{"format": "int8_tensorwise", "params": {"convrot": true, "convrot_groupsize": 16}, "by": "x"}"#;
    assert_eq!(Model::marked(nested).rotation(), 16);
    assert_eq!(Model::marked(r#"{"params": {"format": "int8_tensorwise", "convrot": false}}"#).rotation(), 0);

    // Without a size the group is 256, which does not divide these rows.
    Model::marked(r#"{"format": "int8_tensorwise", "convrot": true}"#).refused(&["m.weight", "128", "256"]);
}

#[test]
fn codes_without_a_description() {
    let words = ["m.weight", "rotated", "comfy_quant", "_quantization_metadata", "int8_convrot_groupsize"];
    Model::silent().refused(&words);
    // The older name of a scale says nothing.
    let mut model = Model::silent();
    let scale = model.take("m.weight_scale");
    model.put("m.scale_weight", scale.0, &scale.1, scale.2);
    model.refused(&words);
}

#[test]
fn groups_that_are_none() {
    for size in ["0", "-64", "2", "8", "32", "128", "512", "4096", "64.0", "\"64\"", "18446744073709551616"] {
        let text =
            format!(r#"{{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": {size}}}"#);
        Model::marked(&text).refused(&["m.comfy_quant", "allowed"]);
    }
    for size in [0, -4, 128] {
        let mut model = Model::silent();
        model.put("m.int8_convrot_groupsize", Dtype::I32, &[], i32::to_le_bytes(size).to_vec());
        model.refused(&["m.int8_convrot_groupsize", "allowed"]);
    }
    let mut model = Model::silent();
    model.put("m.int8_convrot_groupsize", Dtype::F32, &[], f32s([64.0]));
    model.refused(&["m.int8_convrot_groupsize", "F32"]);
    let mut model = Model::silent();
    model.put("m.int8_convrot_groupsize", Dtype::I32, &[2], [64i32.to_le_bytes(); 2].concat());
    model.refused(&["m.int8_convrot_groupsize", "8 bytes"]);
}

#[test]
fn descriptions_that_are_not_understood() {
    for (text, words) in [
        (r#"{"convrot": true}"#, &["format", "nothing found", "int8_tensorwise"][..]),
        (r#"{"format": "int8_blockwise"}"#, &["format", "int8_blockwise"]),
        (r#"{"format": 8}"#, &["format", "8 found"]),
        (r#"{"format": "int8_tensorwise", "convrot": 1}"#, &["convrot", "true or false"]),
        (
            r#"{"format": "int8_tensorwise", "convrot_groupsize": 64}"#,
            &["convrot_groupsize", "convrot is not true"],
        ),
        (
            r#"{"format": "int8_tensorwise", "full_precision_matrix_mult": true}"#,
            &["full_precision_matrix_mult"],
        ),
        (r#"{"format": "int8_tensorwise", "params": 3}"#, &["params", "an object"]),
        (
            r#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 64,
                "params": {"convrot_groupsize": 16}}"#,
            &["params.convrot_groupsize", "64"],
        ),
        ("[]", &["an object"]),
        ("{", &["not JSON"]),
        ("", &["not JSON"]),
    ] {
        let item = ["m.comfy_quant"];
        Model::marked(text).refused(&[&item[..], words].concat());
    }
    let mut model = Model::silent();
    model.put("m.comfy_quant", Dtype::I8, &[ROTATED.len()], ROTATED.as_bytes().to_vec());
    model.refused(&["m.comfy_quant", "I8", "U8"]);
    let mut model = Model::silent();
    model.put("m.comfy_quant", Dtype::U8, &[1, ROTATED.len()], ROTATED.as_bytes().to_vec());
    model.refused(&["m.comfy_quant", "2 dimensions"]);
    let long = format!("{ROTATED}{}", " ".repeat(5000));
    Model::marked(&long).refused(&["m.comfy_quant", "4096"]);

    for (text, word) in
        [("[]", "an object"), (r#"{"layers": 3}"#, "layers"), ("{}", "layers"), ("{", "not JSON")]
    {
        let mut model = Model::marked(ROTATED);
        model.note("_quantization_metadata", text);
        model.refused(&["model.safetensors: _quantization_metadata", word]);
    }
    let mut model = Model::silent();
    model.note("_quantization_metadata", &header("true"));
    model.refused(&["_quantization_metadata: m", "true found"]);
}

#[test]
fn descriptions_that_differ() {
    let other = ROTATED.replace("64", "16");
    let plain = r#"{"format": "int8_tensorwise"}"#;
    for other in [&other, plain] {
        let mut model = Model::marked(ROTATED);
        model.note("_quantization_metadata", &header(other));
        model.refused(&["_quantization_metadata: m", "m.comfy_quant", "64"]);
        let mut model = Model::marked(ROTATED);
        model
            .others
            .insert("config.json".into(), format!(r#"{{"quantization_config": {other}}}"#).into_bytes());
        model.refused(&["config.json: quantization_config", "m.comfy_quant"]);
        let mut model = Model::silent();
        model
            .others
            .insert("config.json".into(), format!(r#"{{"quantization_config": {ROTATED}}}"#).into_bytes());
        model.others.insert("quantization_config.json".into(), other.as_bytes().to_vec());
        model.refused(&["quantization_config.json", "config.json: quantization_config"]);
    }
    let mut model = Model::marked(ROTATED);
    model.put("m.int8_convrot_groupsize", Dtype::I32, &[], 16i32.to_le_bytes().to_vec());
    model.refused(&["m.int8_convrot_groupsize", "groups of 16", "groups of 64"]);
}

#[test]
fn descriptions_of_what_is_not_stored_as_codes() {
    let mut model = Model::marked(ROTATED);
    model.mark("gate", ROTATED);
    model.refused(&["gate.comfy_quant", "stored as BF16", "I8"]);
    let mut model = Model::marked(ROTATED);
    model.put("gate.int8_convrot_groupsize", Dtype::I32, &[], 64i32.to_le_bytes().to_vec());
    model.refused(&["gate.int8_convrot_groupsize", "stored as BF16"]);
    let mut model = Model::marked(ROTATED);
    model.note("_quantization_metadata", &header(ROTATED).replace("\"m\"", "\"gate\""));
    model.refused(&["_quantization_metadata: gate", "stored as BF16"]);
    // What never is, and what is not there at all.
    let mut model = Model::marked(ROTATED);
    model.mark("v", ROTATED);
    model.refused(&["v.comfy_quant"]);
    let mut model = Model::marked(ROTATED);
    model.note("_quantization_metadata", &header(ROTATED).replace("\"m\"", "\"other.m\""));
    model.refused(&["_quantization_metadata: other.m", "no such matrix"]);
    // A configuration speaks of codes only.
    let mut model = Model::marked(ROTATED);
    model.take("m.comfy_quant");
    model.take("m.weight");
    model.take("m.weight_scale");
    model.put("m.weight", Dtype::BF16, &[ROWS, WIDTH], bf16((0..ROWS * WIDTH).map(|i| i as f32)));
    model
        .others
        .insert("config.json".into(), format!(r#"{{"quantization_config": {ROTATED}}}"#).into_bytes());
    assert_eq!(model.rotation(), 0);
    // Codes where the model has none.
    let mut model = Model::marked(ROTATED);
    model.put("v", Dtype::I8, &[5], codes(1, 5));
    model.refused(&["v", "I8", "allowed"]);
}
