//! INT8 as its contract says: what a run's taps show, worked out again on the CPU, bit for bit; and the reals that a
//! quantized model's codes stand for.

use std::collections::BTreeMap;
use std::path::Path;

use dikast_core::backend::Taps;
use dikast_core::checkpoint::{Blob, ModelFiles, Weights};
use dikast_core::graph::{Graph, RowOp, Step, TensorId, WeightId};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::{bf16, int8};
use dikast_core::{Error, Result};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

/// What was worked out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exact {
    /// Quantizers whose rows were tapped.
    pub quantizers: usize,
    /// Products that are not gated.
    pub products: usize,
    /// Codes and sums compared.
    pub values: u64,
}

/// Every quantizer whose rows a tap shows and every INT8 product of a run, from what the device had. Of each tensor at
/// most `rows` rows are looked at, the first and the last among them. Results that a device keeps in bfloat16 are rounded
/// once.
///
/// # Errors
/// [`Error::Internal`] naming the tensor, row and column of the first difference.
pub fn exact(graph: &Graph, weights: &Weights, taps: &Taps, rows: usize) -> Result<Exact> {
    let mut exact = Exact::default();
    for step in graph.steps() {
        match *step {
            Step::RotateQuantize { op, rotation, codes, scales, rows: kept } => {
                let source = match (kept, op) {
                    (Some(kept), _) => kept,
                    (None, RowOp::Copy { x }) => x,
                    _ => continue,
                };
                let (source, found, scales) =
                    (tap(graph, taps, source)?, tap(graph, taps, codes)?, tap(graph, taps, scales)?);
                let width = found.len().checked_div(scales.len()).unwrap_or(0);
                let (mut scratch, mut want) = (vec![0.0; width], vec![0; width]);
                for row in some(scales.len(), rows) {
                    let own = row * width..(row + 1) * width;
                    let scale = int8::quantize_row(
                        &source[own.clone()],
                        rotation.group,
                        rotation.mode,
                        &mut scratch,
                        &mut want,
                    );
                    if scale.to_bits() != scales[row].to_bits() {
                        return Err(apart(graph, codes, row, 0, f64::from(scales[row]), f64::from(scale)));
                    }
                    for (column, (want, found)) in want.iter().zip(&found[own]).enumerate() {
                        if f32::from(*want) != *found {
                            let (found, want) = (f64::from(*found), f64::from(*want));
                            return Err(apart(graph, codes, row, column, found, want));
                        }
                    }
                    exact.values += width as u64;
                }
                exact.quantizers += 1;
            }
            Step::Int8Linear { codes, scales, weight, weight_scales, bias: None, residual, out } => {
                let w = whole(graph, weights, weight, |v| v.bytes.iter().map(|b| b.cast_signed()).collect())?;
                let s: Vec<f32> = whole(graph, weights, weight_scales, |v| v.to_f32().to_vec())?;
                let (codes, scales, found) =
                    (tap(graph, taps, codes)?, tap(graph, taps, scales)?, tap(graph, taps, out)?);
                let residual = residual.map(|id| tap(graph, taps, id)).transpose()?;
                let k = w.len().checked_div(s.len()).unwrap_or(0);
                let halves = found.iter().all(|v| bf16::round(*v).to_bits() == v.to_bits());
                for row in some(scales.len(), rows) {
                    let x: Vec<i8> = codes[row * k..(row + 1) * k].iter().map(|c| *c as i8).collect();
                    for (n, scale) in s.iter().enumerate() {
                        let acc = int8::dot(&x, &w[n * k..(n + 1) * k]);
                        let mut want = int8::epilogue(acc, scales[row], *scale, None);
                        if let Some(residual) = residual {
                            want += residual[row * s.len() + n];
                        }
                        let want = if halves { bf16::round(want) } else { want };
                        let found = found[row * s.len() + n];
                        if found.to_bits() != want.to_bits() {
                            return Err(apart(graph, out, row, n, f64::from(found), f64::from(want)));
                        }
                    }
                    exact.values += s.len() as u64;
                }
                exact.products += 1;
            }
            _ => {}
        }
    }
    Ok(exact)
}

/// Some of `count` rows, evenly spread.
fn some(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let taken = count.min(most.max(1));
    (0..taken).map(move |i| if taken < 2 { 0 } else { i * (count - 1) / (taken - 1) })
}

fn tap<'a>(graph: &Graph, taps: &'a Taps, id: TensorId) -> Result<&'a [f32]> {
    taps.get(id).ok_or_else(|| Error::Internal(format!("{} was not tapped", graph.tensor(id).name)))
}

/// The parts of a weight one after the other.
fn whole<T>(
    graph: &Graph,
    weights: &Weights,
    id: WeightId,
    decode: impl Fn(dikast_core::checkpoint::TensorView<'_>) -> Vec<T>,
) -> Result<Vec<T>> {
    let mut all = Vec::new();
    for part in &graph.weight(id).parts {
        all.extend(decode(weights.tensor(part)?));
    }
    Ok(all)
}

fn apart(graph: &Graph, id: TensorId, row: usize, column: usize, found: f64, want: f64) -> Error {
    let name = &graph.tensor(id).name;
    Error::Internal(format!(
        "{name}, row {row}, column {column}: {found:e} found, {want:e} by the definition"
    ))
}

/// A model folder with its INT8 matrices, rotated in groups of that size, written out in F32: what products of weights
/// alone compute but for the rounding of rows.
///
/// # Panics
/// For a folder that is no model as `dikast quantize` writes it.
pub fn dequantized(model: &Path, group: Group) -> ModelFiles {
    let entries = std::fs::read_dir(model).unwrap_or_else(|e| panic!("{}: {e}", model.display()));
    let mut files = BTreeMap::new();
    for entry in entries {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name");
        // What these say is of the codes.
        if name == "SHA256SUMS" || name == "quantization_config.json" {
            continue;
        }
        let bytes = std::fs::read(entry.path()).expect("a file");
        let bytes = if name == "model.safetensors" { in_f32(&bytes, group) } else { bytes };
        files.insert(name, Blob::Owned(bytes.into()));
    }
    ModelFiles::from_memory("dequantized", files)
}

fn in_f32(file: &[u8], group: Group) -> Vec<u8> {
    let all = SafeTensors::deserialize(file).expect("a safetensors file");
    let le = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let mut stored: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    for (name, view) in all.tensors() {
        if name.ends_with(".weight_scale") || name.ends_with(".comfy_quant") {
            continue;
        }
        if view.dtype() != Dtype::I8 {
            stored.push((name, view.dtype(), view.shape().to_vec(), view.data().to_vec()));
            continue;
        }
        let scales = all.tensor(&format!("{name}_scale")).expect("its scales");
        let width = view.shape()[1];
        let mut row = vec![0.0; width];
        let mut bytes = Vec::with_capacity(view.data().len() * 4);
        for (codes, scale) in view.data().chunks(width).zip(scales.data().chunks(4)) {
            let codes: Vec<i8> = codes.iter().map(|c| c.cast_signed()).collect();
            int8::dequantize_row(&codes, le(scale), Some(group), &mut row);
            bytes.extend(row.iter().flat_map(|v| (*v as f32).to_le_bytes()));
        }
        stored.push((name, Dtype::F32, view.shape().to_vec(), bytes));
    }
    let views = stored.iter().map(|(name, dtype, shape, bytes)| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).expect("a tensor"))
    });
    safetensors::serialize(views, None).expect("a file")
}
