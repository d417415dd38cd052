//! `Linear`, `LinearGated`, `QuantLinear`, `QuantLinearGated`.

use super::activation::apply;
use super::gemm::{Scalar, Strided};
use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::checkpoint::TensorView;
use crate::graph::{Activation, Step, TensorId};
use crate::numerics::e4m3;

/// Output columns per task for few rows: the widened weight block stays in the cache.
const NARROW: usize = 64;
/// From this many rows on, tasks are as wide as the threads allow: the rows are then packed once a task.
const MANY_ROWS: usize = 256;

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    match *step {
        Step::Linear { x, weight, bias, activation, residual, out } => {
            let (rows, k) = (store.rows(x), store.cols(x));
            let product = multiply(store.f32(x)?, rows, k, &operands.parts(weight)?, widen_f32);
            let bias = bias.map(|b| operands.vector(b)).transpose()?;
            let residual = residual.map(|r| store.f32(r)).transpose()?;
            let n = store.cols(out);
            let mut y = store.zeros(out);
            parallel::chunks(&mut y, n, |i, y| {
                product.row(i, y);
                if let Some(bias) = &bias {
                    y.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
                }
                if let Some(activation) = activation {
                    y.iter_mut().for_each(|y| *y = apply(activation, *y));
                }
                if let Some(residual) = residual {
                    y.iter_mut().zip(&residual[i * n..]).for_each(|(y, r)| *y += r);
                }
            });
            store.put_f32(out, y);
            Ok(())
        }
        Step::LinearGated { x, weight, activation, out } => {
            let (rows, k) = (store.rows(x), store.cols(x));
            let product = multiply(store.f32(x)?, rows, k, &operands.parts(weight)?, widen_f32);
            gate(&product, None, activation, out, store)
        }
        Step::QuantLinear { codes, scales, weight, weight_scales, residual, out } => {
            let dequantized = Dequantized::new(codes, scales, operands.vector(weight_scales)?, store)?;
            let product = dequantized.product(&operands.parts(weight)?);
            let residual = residual.map(|r| store.f32(r)).transpose()?;
            let n = store.cols(out);
            let mut y = store.zeros(out);
            parallel::chunks(&mut y, n, |i, y| {
                dequantized.row(&product, i, y);
                if let Some(residual) = residual {
                    y.iter_mut().zip(&residual[i * n..]).for_each(|(y, r)| *y += r);
                }
            });
            store.put_f32(out, y);
            Ok(())
        }
        Step::QuantLinearGated { codes, scales, weight, weight_scales, activation, out } => {
            let dequantized = Dequantized::new(codes, scales, operands.vector(weight_scales)?, store)?;
            let product = dequantized.product(&operands.parts(weight)?);
            gate(&product, Some(&dequantized), activation, out, store)
        }
        _ => Err(misrouted(step)),
    }
}

/// `activation(first half) · second half` of each row of a product.
fn gate<T: Scalar + Into<f64>>(
    product: &Product<T>,
    dequantized: Option<&Dequantized>,
    activation: Activation,
    out: TensorId,
    store: &mut Store<'_>,
) -> Result<()> {
    let n = store.cols(out);
    let mut y = store.zeros(out);
    parallel::chunks(&mut y, n, |i, y| {
        let mut both = vec![0.0f32; 2 * n];
        product.row(i, &mut both);
        if let Some(d) = dequantized {
            d.scale(i, &mut both);
        }
        let (gate, up) = both.split_at(n);
        for ((y, g), u) in y.iter_mut().zip(gate).zip(up) {
            *y = apply(activation, *g) * u;
        }
    });
    store.put_f32(out, y);
    Ok(())
}

/// The operands of an FP8 product beside the weight codes.
struct Dequantized {
    codes: Vec<f64>,
    rows: usize,
    k: usize,
    scales: Vec<f32>,
    weight_scales: Vec<f32>,
}

impl Dequantized {
    fn new(codes: TensorId, scales: TensorId, weight_scales: Vec<f32>, store: &Store<'_>) -> Result<Self> {
        Ok(Self {
            codes: store.codes(codes)?.iter().map(|&c| f64::from(e4m3::decode(c))).collect(),
            rows: store.rows(codes),
            k: store.cols(codes),
            scales: store.f32(scales)?.to_vec(),
            weight_scales,
        })
    }

    fn product(&self, weight: &[TensorView<'_>]) -> Product<f64> {
        multiply(&self.codes, self.rows, self.k, weight, widen_codes)
    }

    fn row(&self, product: &Product<f64>, i: usize, y: &mut [f32]) {
        product.row(i, y);
        self.scale(i, y);
    }

    fn scale(&self, i: usize, y: &mut [f32]) {
        let s = self.scales[i];
        y.iter_mut().zip(&self.weight_scales).for_each(|(y, w)| *y = (*y * s) * w);
    }
}

/// Codes as f64. Products of two E4M3 values are multiples of 2⁻¹⁸ below 2¹⁸, so f64 holds sums of up to 2¹⁷ of them
/// exactly, in any order.
pub(super) fn widen_codes(view: &TensorView<'_>, rows: std::ops::Range<usize>, out: &mut [f64]) {
    let k = view.row_len();
    let bytes = &view.bytes[rows.start * k..rows.end * k];
    out.iter_mut().zip(bytes).for_each(|(o, &c)| *o = f64::from(e4m3::decode(c)));
}

pub(super) fn widen_f32(view: &TensorView<'_>, rows: std::ops::Range<usize>, out: &mut [f32]) {
    view.decode_rows(rows, out);
}

/// `x·Wᵀ` in blocks of output columns, each block `[rows, width]` row-major, one after the other.
pub(super) struct Product<T> {
    data: Vec<T>,
    rows: usize,
    n: usize,
    block: usize,
}

impl<T: Scalar + Into<f64>> Product<T> {
    /// One row, rounded to f32.
    fn row(&self, i: usize, out: &mut [f32]) {
        for (b, out) in out.chunks_mut(self.block).enumerate() {
            let width = (self.n - b * self.block).min(self.block);
            let start = b * self.block * self.rows + i * width;
            for (o, &v) in out.iter_mut().zip(&self.data[start..start + width]) {
                *o = v.into() as f32;
            }
        }
    }
}

/// `x[rows, k] · Wᵀ` for a weight given as stacked parts; `widen` reads rows of a part.
pub(super) fn multiply<T: Scalar>(
    x: &[T],
    rows: usize,
    k: usize,
    weight: &[TensorView<'_>],
    widen: impl Fn(&TensorView<'_>, std::ops::Range<usize>, &mut [T]) + Sync + Send,
) -> Product<T> {
    let n: usize = weight.iter().map(|w| w.shape[0]).sum();
    // An element's bits depend on neither: see `gemm`.
    let block =
        if rows < MANY_ROWS { NARROW } else { n.div_ceil(parallel::threads()).next_multiple_of(NARROW) };
    let mut data = vec![T::default(); rows * n];
    parallel::chunks(&mut data, rows * block, |b, y| {
        let columns = b * block..n.min((b + 1) * block);
        let width = columns.len();
        let mut w = vec![T::default(); width * k];
        read_rows(weight, columns, k, &widen, &mut w);
        T::product(rows, k, width, Strided::rows(x, k), Strided::rows(&w, k).transposed(), y);
    });
    Product { data, rows, n, block }
}

/// Rows of the stacked parts.
fn read_rows<T>(
    parts: &[TensorView<'_>],
    rows: std::ops::Range<usize>,
    k: usize,
    widen: &impl Fn(&TensorView<'_>, std::ops::Range<usize>, &mut [T]),
    out: &mut [T],
) {
    let mut first = 0;
    for part in parts {
        let last = first + part.shape[0];
        let (from, to) = (rows.start.max(first), rows.end.min(last));
        if from < to {
            let place = (from - rows.start) * k..(to - rows.start) * k;
            widen(part, from - first..to - first, &mut out[place]);
        }
        first = last;
    }
}
