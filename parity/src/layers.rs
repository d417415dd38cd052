//! INT8 layers whose codes, sums and outputs are known, on a backend: bit for bit.

use std::sync::Arc;

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::{
    Blob, Checks, Expected, FileLayout, ModelFiles, StoredTensor, StoredType, TensorSpec, Values, Weights,
};
use dikast_core::graph::{
    Elements, Graph, GraphBuilder, InputKind, Residency, Rotation, RowOp, Sizes, TensorId, Weight, WeightId,
};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::{self, Int8Mode};
use dikast_core::{Error, Result};
use half::bf16;
use safetensors::tensor::{SafeTensors, TensorView};

/// A quantizer and the product behind it, with what both must give.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownLayer {
    /// Its name in the file.
    pub name: String,
    /// How activations are quantized.
    pub rotation: Rotation,
    /// Activations `[m, k]`.
    pub x: Vec<f32>,
    /// Codes of the weight `[n, k]`.
    pub weight: Vec<i8>,
    /// Scales of its rows `[n]`.
    pub scales: Vec<f32>,
    /// Bias `[n]`.
    pub bias: Vec<f32>,
    /// Codes of the activations `[m, k]`, where the file has them.
    pub codes: Option<Vec<i8>>,
    /// The output `[m, n]`.
    pub out: Vec<f32>,
}

/// Whole linear layers from bfloat16 input, in every group size and both modes: `convrot_linear.safetensors`.
///
/// # Errors
/// [`Error::Checkpoint`] naming what the file lacks.
pub fn known_layers(file: &[u8]) -> Result<Vec<KnownLayer>> {
    let file = open(file)?;
    let (x, bias) = (halves(&file, "x_bf16")?, reals(&file, "bias_f32")?);
    let mut layers = Vec::new();
    for size in [16, 64, 256] {
        for (name, mode) in [("standard", Int8Mode::Standard), ("exact", Int8Mode::Exact)] {
            layers.push(KnownLayer {
                name: format!("g{size}.{name}"),
                rotation: Rotation { group: Group::new(size), mode },
                x: x.clone(),
                weight: codes(&file, &format!("g{size}.w_q"))?,
                scales: reals(&file, &format!("g{size}.w_scale"))?,
                bias: bias.clone(),
                codes: None,
                out: reals(&file, &format!("g{size}.{name}.y_f32"))?,
            });
        }
    }
    Ok(layers)
}

/// The layers of `convrot_linear.safetensors` as products of weights alone: `out` is the value in f64, rounded once.
///
/// # Errors
/// As [`known_layers`].
pub fn known_weight_only(file: &[u8]) -> Result<Vec<KnownLayer>> {
    let mut layers = known_layers(file)?;
    layers.retain(|layer| layer.rotation.mode == Int8Mode::Standard);
    let file = open(file)?;
    for layer in &mut layers {
        let name = layer.name.replace("standard", "weight_only");
        let values = tensor(&file, &format!("{name}.y_f64"))?.data().chunks_exact(8);
        layer.out = values
            .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as f32)
            .collect();
        layer.name = name;
    }
    Ok(layers)
}

/// Products of given codes with known sums, up to the largest that are possible: `int8_gemm.safetensors`.
///
/// Rows of codes are given to the quantizer as activations; those whose largest code is 127 come back as they are,
/// with scale 1, and the others are left out.
///
/// # Errors
/// As [`known_layers`].
pub fn known_products(file: &[u8]) -> Result<Vec<KnownLayer>> {
    let file = open(file)?;
    let mut layers = Vec::new();
    for name in ["small", "ragged", "k17408"] {
        let of = |part: &str| format!("{name}.{part}");
        let k = tensor(&file, &of("xq"))?.shape().last().copied().unwrap_or(1).max(1);
        let (scales, bias) = (reals(&file, &of("w_scale"))?, reals(&file, &of("bias_f32"))?);
        let (all, sums) = (codes(&file, &of("xq"))?, sums(&file, &of("acc_i32"))?);
        let (mut rows, mut out) = (Vec::new(), Vec::new());
        for (row, sums) in all.chunks(k).zip(sums.chunks(scales.len().max(1))) {
            if !row.contains(&127) && !row.contains(&-127) {
                continue;
            }
            rows.extend(row);
            let columns = sums.iter().zip(scales.iter().zip(&bias));
            out.extend(columns.map(|(sum, (scale, bias))| int8::epilogue(*sum, 1.0, *scale, Some(*bias))));
        }
        layers.push(KnownLayer {
            name: name.to_owned(),
            rotation: Rotation { group: None, mode: Int8Mode::Exact },
            x: rows.iter().copied().map(f32::from).collect(),
            weight: codes(&file, &of("wq"))?,
            scales,
            bias,
            codes: Some(rows),
            out,
        });
    }
    Ok(layers)
}

/// Runs a layer on a backend. The numbers of codes and outputs that were compared.
///
/// # Errors
/// [`Error::Internal`] naming the first value that is not the known one, bit for bit; as [`Backend::run`] besides.
pub async fn check_layer<B: Backend>(backend: &B, layer: &KnownLayer) -> Result<(usize, usize)> {
    let n = layer.scales.len();
    let k = layer.weight.len().checked_div(n).unwrap_or(0);
    let (found, out) = run_layer(backend, layer).await?;
    let known: Vec<f32> = layer.codes.iter().flatten().copied().map(f32::from).collect();
    if layer.codes.is_some() {
        equal(&layer.name, "code", k, &found, &known)?;
    }
    equal(&layer.name, "output", n, &out, &layer.out)?;
    Ok((known.len(), layer.out.len()))
}

/// The codes and the output of a layer on a backend.
///
/// # Errors
/// As [`Backend::run`].
pub async fn run_layer<B: Backend>(backend: &B, layer: &KnownLayer) -> Result<(Vec<f32>, Vec<f32>)> {
    let n = layer.scales.len();
    let k = layer.weight.len().checked_div(n).unwrap_or(0);
    let m = layer.x.len().checked_div(k).unwrap_or(0);
    let weights = layer.stored(m, k, n)?;
    let (graph, codes) = layer.graph(m, k, n)?;
    let sizes = Sizes { tokens: m, sequences: 1, ..Sizes::default() };
    let mut batch = Batch::new(sizes);
    batch.set(InputKind::TokenIds, (0..m as i32).collect());
    let resident = backend.load(&graph, &weights, &mut |_, _| {})?;
    let mut plan = backend.plan(&graph, &resident, &backend.bucket(&sizes))?;
    let mut taps = Taps::all(&graph);
    let out = backend.run(&mut plan, &resident, &batch, &mut taps).await?;
    let found = taps.get(codes).ok_or_else(|| Error::Internal(format!("{}: no codes", layer.name)))?;
    Ok((found.to_vec(), out))
}

fn equal(layer: &str, what: &str, width: usize, found: &[f32], known: &[f32]) -> Result<()> {
    if found.len() != known.len() {
        return Err(Error::Internal(format!(
            "{layer}: {} of a kind ({what}), {} known",
            found.len(),
            known.len()
        )));
    }
    match found.iter().zip(known).position(|(a, b)| a.to_bits() != b.to_bits()) {
        None => Ok(()),
        Some(i) => {
            let (row, column) = (i / width, i % width);
            let (found, known) = (found[i], known[i]);
            Err(Error::Internal(format!(
                "{layer}: {what} of row {row}, column {column}: {found:e}, known {known:e}"
            )))
        }
    }
}

impl KnownLayer {
    /// Activations from a table on the host, the quantizer, the product.
    fn graph(&self, m: usize, k: usize, n: usize) -> Result<(Graph, TensorId)> {
        let mut b = GraphBuilder::new("int8 layer");
        let ids = b.input(InputKind::TokenIds);
        let table = weight(&mut b, "x", &[m, k], Elements::Real, Residency::HostRows);
        let x = b.embed("input", ids, table, None);
        let (quantized, _) = b.rotate_quantize("quantized", RowOp::Copy { x }, self.rotation, false);
        let w = weight(&mut b, "w.weight", &[n, k], Elements::Int8, Residency::Device);
        let scales = weight(&mut b, "w.weight_scale", &[n, 1], Elements::Real, Residency::Device);
        let bias = b.weight("w.bias", &[n]);
        let out = b.int8_linear("out", quantized, (w, scales), Some(bias), None);
        let codes = quantized.codes;
        Ok((b.finish(out)?, codes))
    }

    /// The table and the weight as a checkpoint in memory.
    fn stored(&self, m: usize, k: usize, n: usize) -> Result<Weights> {
        let le = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let all: [(&str, StoredType, Vec<usize>, Vec<u8>); 4] = [
            ("x", StoredType::F32, vec![m, k], le(&self.x)),
            ("w.weight", StoredType::I8, vec![n, k], self.weight.iter().map(|c| c.cast_unsigned()).collect()),
            ("w.weight_scale", StoredType::F32, vec![n, 1], le(&self.scales)),
            ("w.bias", StoredType::F32, vec![n], le(&self.bias)),
        ];
        let stored = |(name, dtype, shape, _): &(&str, StoredType, Vec<usize>, Vec<u8>)| StoredTensor {
            name: (*name).to_owned(),
            dtype: *dtype,
            shape: shape.clone(),
        };
        let layout = FileLayout::new(all.iter().map(stored).collect())?;
        let mut file = Vec::new();
        layout.write(&mut file, |tensor, out| {
            let bytes = all.iter().find(|(name, ..)| *name == tensor.name).map_or(&[][..], |t| &t.3);
            out.write_all(bytes)
        })?;
        let spec = |(name, dtype, shape, _): &(&str, StoredType, Vec<usize>, Vec<u8>)| TensorSpec {
            name: (*name).to_owned(),
            allowed: vec![*dtype],
            shape: shape.clone(),
            values: Values::Finite,
            companions: Vec::new(),
        };
        let expected = Expected { tensors: all.iter().map(spec).collect(), ..Expected::default() };
        // The graph says how activations are rotated; the codes must say something.
        let plain = br#"{"quant_method": "int8_tensorwise", "convrot": false}"#.to_vec();
        let blob = |bytes: Vec<u8>| Blob::Owned(Arc::from(bytes));
        let files = [("model.safetensors", blob(file)), ("quantization_config.json", blob(plain))];
        let files =
            ModelFiles::from_memory(&self.name, files.into_iter().map(|(name, b)| (name.to_owned(), b)));
        Weights::open(&files, &expected, Checks::HEADERS)
    }
}

fn weight(
    b: &mut GraphBuilder,
    name: &str,
    shape: &[usize],
    elements: Elements,
    residency: Residency,
) -> WeightId {
    let parts = vec![name.to_owned()];
    b.add_weight(Weight { name: name.to_owned(), parts, shape: shape.to_vec(), elements, residency })
}

fn open(file: &[u8]) -> Result<SafeTensors<'_>> {
    SafeTensors::deserialize(file).map_err(|e| Error::checkpoint("known layers", e.to_string()))
}

fn tensor<'a>(file: &SafeTensors<'a>, name: &str) -> Result<TensorView<'a>> {
    file.tensor(name).map_err(|e| Error::checkpoint("known layers", format!("{name}: {e}")))
}

fn halves(file: &SafeTensors<'_>, name: &str) -> Result<Vec<f32>> {
    let bits = |b: &[u8]| bf16::from_bits(u16::from_le_bytes([b[0], b[1]])).to_f32();
    Ok(tensor(file, name)?.data().chunks_exact(2).map(bits).collect())
}

fn reals(file: &SafeTensors<'_>, name: &str) -> Result<Vec<f32>> {
    let real = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    Ok(tensor(file, name)?.data().chunks_exact(4).map(real).collect())
}

fn sums(file: &SafeTensors<'_>, name: &str) -> Result<Vec<i32>> {
    let whole = |b: &[u8]| i32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    Ok(tensor(file, name)?.data().chunks_exact(4).map(whole).collect())
}

fn codes(file: &SafeTensors<'_>, name: &str) -> Result<Vec<i8>> {
    Ok(tensor(file, name)?.data().iter().map(|b| b.cast_signed()).collect())
}
