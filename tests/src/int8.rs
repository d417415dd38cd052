//! INT8 as its contract says: what a run's taps show, worked out again on the CPU, bit for bit.

use dikast_core::backend::Taps;
use dikast_core::checkpoint::Weights;
use dikast_core::graph::{Graph, RowOp, Step, TensorId, WeightId};
use dikast_core::numerics::{bf16, int8};
use dikast_core::{Error, Result};

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
