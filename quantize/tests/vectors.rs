//! INT8 without a rotation, and the stored vectors of weights through the whole path.

use std::fs;
use std::path::{Path, PathBuf};

use dikast_core::checkpoint::{Expected, Recipe, StoredType, TensorSpec};
use dikast_core::numerics::hadamard::Group;
use dikast_quantize::{Options, Plan, Rows, Scheme, Source, convert, write_weights};
use safetensors::SafeTensors;

fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(path)
}

/// One matrix in memory.
struct Matrix {
    values: Vec<f32>,
    width: usize,
}

impl Source for Matrix {
    fn open<'a>(&'a self, _: &'a TensorSpec) -> dikast_core::Result<Box<dyn Rows + 'a>> {
        Ok(Box::new(Lines(self)))
    }
}

struct Lines<'a>(&'a Matrix);

impl Rows for Lines<'_> {
    fn dtype(&self) -> StoredType {
        StoredType::BF16
    }

    fn row(&self, row: usize, out: &mut [f32]) {
        out.copy_from_slice(&self.0.values[row * self.0.width..(row + 1) * self.0.width]);
    }
}

#[test]
fn the_stored_vectors_come_out_of_the_writer_bit_for_bit() {
    let bytes = fs::read(data("quant/weight_quant.safetensors")).expect("the vectors");
    let vectors = SafeTensors::deserialize(&bytes).expect("safetensors");
    let names: Vec<&str> = vectors.names();
    let weight = vectors.tensor("w_bf16").unwrap_or_else(|e| panic!("{e}: {names:?}"));
    let values: Vec<f32> = weight
        .data()
        .as_chunks::<2>()
        .0
        .iter()
        .map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16))
        .collect();
    let (rows, width) = (weight.shape()[0], weight.shape()[1]);
    let matrix = Matrix { values, width };
    let mut seen = 0;
    for (scheme, group) in std::iter::once((Scheme::Int8, None)).chain(
        [4, 16, 64, 256].map(|g| (Scheme::Int8ConvRot { group: Group::new(g).expect("a size") }, Some(g))),
    ) {
        let prefix = group.map_or_else(|| "g0".to_owned(), |g| format!("g{g}"));
        let Ok(codes) = vectors.tensor(&format!("{prefix}.q")) else { continue };
        let scales = vectors.tensor(&format!("{prefix}.scale")).expect("scales");
        let expected =
            Expected { tensors: vec![TensorSpec::int8_projection("m", rows, width)], ..Expected::default() };
        let plan = Plan::new(&expected, scheme, u64::MAX, &matrix).expect("a plan");
        let dir = tempfile::tempdir().expect("a folder");
        let recipe = Recipe { name: "absmax".to_owned(), version: 1 };
        write_weights(dir.path(), &plan, &recipe, &matrix, &mut |_, _| {}).expect("written");
        let file = fs::read(dir.path().join("model.safetensors")).expect("written");
        let file = SafeTensors::deserialize(&file).expect("safetensors");
        assert!(file.tensor("m.weight").expect("codes").data() == codes.data(), "codes of {prefix}");
        assert!(file.tensor("m.weight_scale").expect("scales").data() == scales.data(), "scales of {prefix}");
        seen += 1;
    }
    assert!(seen == 4, "{names:?}");
}

#[test]
fn codes_without_a_rotation_say_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options::new(Scheme::Int8);
    let report = convert(&data("clef-tiny/model"), dir.path(), options, &mut |_, _| {}).expect("converted");
    assert_eq!((report.quantized, report.errors.len()), (50, 50));
    let file = fs::read(dir.path().join("model.safetensors")).expect("written");
    let file = SafeTensors::deserialize(&file).expect("safetensors");
    let marker = file.tensor("model.language_model.layers.3.self_attn.q_proj.comfy_quant").expect("a marker");
    let marker: serde_json::Value = serde_json::from_slice(marker.data()).expect("JSON");
    assert_eq!(marker, serde_json::json!({"format": "int8_tensorwise", "convrot": false}));
}
