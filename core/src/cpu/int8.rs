//! `Int8Linear` and `Int8LinearGated`.
//!
//! Rows that another device has not rounded to codes are multiplied as they are, in f32.
//!
//! Products of two codes are at most 2¹⁴, so an f32 sum of up to 1024 of them is exact in any order: `k` is cut into
//! such blocks, each a product in f32, and their sums are added in i32.

use super::activation::apply;
use super::gemm::{Scalar, Strided};
use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::checkpoint::TensorView;
use crate::graph::{Step, TensorId, WeightId};

/// Terms of one exact f32 sum: 1024·128·128 = 2²⁴.
const EXACT: usize = 1024;
/// Output columns per task.
const NARROW: usize = 64;
/// Rows of a block of the product.
const ROWS: usize = 256;

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    match *step {
        Step::Int8Linear { codes, scales, weight, weight_scales, bias, residual, out } => {
            let mut y = product((codes, scales), (weight, weight_scales, bias), operands, store)?;
            if let Some(residual) = residual {
                y.iter_mut().zip(store.f32(residual)?).for_each(|(y, r)| *y += r);
            }
            store.put_f32(out, y);
            Ok(())
        }
        Step::Int8LinearGated { codes, scales, weight, weight_scales, bias, activation, out } => {
            let both = product((codes, scales), (weight, weight_scales, bias), operands, store)?;
            let (n, mut y) = (store.cols(out), store.zeros(out));
            parallel::chunks(&mut y, n, |row, y| {
                let (gate, up) = both[row * 2 * n..][..2 * n].split_at(n);
                for ((y, g), u) in y.iter_mut().zip(gate).zip(up) {
                    *y = apply(activation, *g) * u;
                }
            });
            store.put_f32(out, y);
            Ok(())
        }
        _ => Err(misrouted(step)),
    }
}

/// The product with scales and bias, `[rows, N]`.
fn product(
    (codes, scales): (TensorId, TensorId),
    (weight, weight_scales, bias): (WeightId, WeightId, Option<WeightId>),
    operands: &Operands<'_>,
    store: &Store<'_>,
) -> Result<Vec<f32>> {
    let (rows, k) = (store.rows(codes), store.cols(codes));
    let weight = operands.parts(weight)?;
    let weight_scales = operands.vector(weight_scales)?;
    let bias = bias.map(|b| operands.vector(b)).transpose()?;
    let n = weight_scales.len();
    let unrounded = store.f32(codes).ok();
    let x: Vec<f32> = match unrounded {
        Some(rows) => rows.to_vec(),
        None => store.int8(codes)?.iter().map(|&c| f32::from(c)).collect(),
    };
    let scales = store.f32(scales)?;

    // Columns in blocks, each block `[rows, width]`, so that one task owns one block.
    let mut blocks = vec![0.0; rows * n];
    parallel::chunks(&mut blocks, rows * NARROW, |b, y| {
        let columns = b * NARROW..n.min((b + 1) * NARROW);
        let width = columns.len();
        let mut w = vec![0.0; width * k];
        read_codes(&weight, columns.clone(), k, &mut w);
        for (from, y) in (0..rows).step_by(ROWS).zip(y.chunks_mut(ROWS * width)) {
            let m = y.len() / width;
            let x = &x[from * k..(from + m) * k];
            let sums = match unrounded {
                Some(_) => sum(x, &w, (m, k, width)),
                None => accumulate(x, &w, (m, k, width)).into_iter().map(|acc| acc as f32).collect(),
            };
            for (i, (y, acc)) in y.chunks_mut(width).zip(sums.chunks(width)).enumerate() {
                let s = scales[from + i];
                for ((y, acc), n) in y.iter_mut().zip(acc).zip(columns.clone()) {
                    *y = (*acc * s) * weight_scales[n];
                    if let Some(bias) = &bias {
                        *y += bias[n];
                    }
                }
            }
        }
    });
    let mut y = vec![0.0; rows * n];
    parallel::chunks(&mut y, n, |row, y| {
        for (b, y) in y.chunks_mut(NARROW).enumerate() {
            let start = b * NARROW * rows + row * y.len();
            y.copy_from_slice(&blocks[start..start + y.len()]);
        }
    });
    Ok(y)
}

/// `x[m, k] · Wᵀ[k, n]` of codes, exact.
fn accumulate(x: &[f32], w: &[f32], (m, k, n): (usize, usize, usize)) -> Vec<i32> {
    let mut sums = vec![0i32; m * n];
    let mut part = vec![0.0; m * n];
    for from in (0..k).step_by(EXACT) {
        let depth = EXACT.min(k - from);
        let a = Strided { data: &x[from..], row: k, col: 1 };
        let b = Strided { data: &w[from..], row: k, col: 1 };
        f32::product(m, depth, n, a, b.transposed(), &mut part);
        sums.iter_mut().zip(&part).for_each(|(s, p)| *s += *p as i32);
    }
    sums
}

/// `x[m, k] · Wᵀ[k, n]` of reals by codes.
fn sum(x: &[f32], w: &[f32], (m, k, n): (usize, usize, usize)) -> Vec<f32> {
    let mut sums = vec![0.0; m * n];
    let a = Strided { data: x, row: k, col: 1 };
    let b = Strided { data: w, row: k, col: 1 };
    f32::product(m, k, n, a, b.transposed(), &mut sums);
    sums
}

/// Rows of the stacked parts, widened.
fn read_codes(parts: &[TensorView<'_>], rows: std::ops::Range<usize>, k: usize, out: &mut [f32]) {
    let mut first = 0;
    for part in parts {
        let last = first + part.shape[0];
        let (from, to) = (rows.start.max(first), rows.end.min(last));
        if from < to {
            let place = &mut out[(from - rows.start) * k..(to - rows.start) * k];
            let bytes = &part.bytes[(from - first) * k..(to - first) * k];
            place.iter_mut().zip(bytes).for_each(|(o, &c)| *o = f32::from(c.cast_signed()));
        }
        first = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_sums_are_exact() {
        let k = 17_408;
        for code in [127.0, -128.0] {
            let (x, w) = (vec![code; 2 * k], vec![-128.0; 3 * k]);
            let want = (code as i32) * -128 * k as i32;
            assert_eq!(accumulate(&x, &w, (2, k, 3)), vec![want; 6]);
        }
    }
}
