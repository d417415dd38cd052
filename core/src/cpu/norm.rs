//! Row-wise norms and the row quantizer.

use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::graph::{Step, TensorId};
use crate::numerics::fp8;

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    match *step {
        Step::RmsNorm { x, weight, eps, out } => {
            let w = operands.vector(weight)?;
            rows(x, out, store, |x, y| rms_norm(x, &w, eps, y))
        }
        Step::RmsNormQuantize { x, weight, eps, codes, scales } => {
            let w = operands.vector(weight)?;
            let mut normed = store.f32(x)?.to_vec();
            parallel::chunks(&mut normed, w.len(), |_, row| {
                let source = row.to_vec();
                rms_norm(&source, &w, eps, row);
            });
            quantize(&normed, w.len(), codes, scales, store);
            Ok(())
        }
        Step::Quantize { x, codes, scales } => {
            let (source, width) = (store.f32(x)?.to_vec(), store.cols(x));
            quantize(&source, width, codes, scales, store);
            Ok(())
        }
        Step::LayerNorm { x, weight, bias, eps, out } => {
            let (w, b) = (operands.vector(weight)?, operands.vector(bias)?);
            rows(x, out, store, |x, y| {
                let center = mean(x, |v| v);
                let variance = mean(x, |v| (v - center) * (v - center));
                let scale = 1.0 / (variance + eps).sqrt();
                for (i, y) in y.iter_mut().enumerate() {
                    *y = (x[i] - center) * scale * w[i] + b[i];
                }
            })
        }
        Step::L2Normalize { x, eps, out } => rows(x, out, store, |x, y| {
            let norm = x.iter().map(|v| v * v).sum::<f32>().sqrt() + eps;
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x / norm);
        }),
        _ => Err(misrouted(step)),
    }
}

fn rms_norm(x: &[f32], w: &[f32], eps: f32, y: &mut [f32]) {
    let mean_square = mean(x, |v| v * v);
    let scale = 1.0 / (mean_square + eps).sqrt();
    for (i, y) in y.iter_mut().enumerate() {
        *y = w[i] * (x[i] * scale);
    }
}

/// Mean of `f` over a row: summed in f64 and rounded once, so that no order of summation is part of the definition.
pub(super) fn mean(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    (x.iter().map(|&v| f64::from(f(v))).sum::<f64>() / x.len() as f64) as f32
}

fn rows(
    x: TensorId,
    out: TensorId,
    store: &mut Store<'_>,
    f: impl Fn(&[f32], &mut [f32]) + Sync + Send,
) -> Result<()> {
    let (width, mut y) = (store.cols(x), store.zeros(out));
    let source = store.f32(x)?;
    parallel::chunks(&mut y, width, |i, y| f(&source[i * width..(i + 1) * width], y));
    store.put_f32(out, y);
    Ok(())
}

fn quantize(x: &[f32], width: usize, codes: TensorId, scales: TensorId, store: &mut Store<'_>) {
    let mut c = vec![0; x.len()];
    let s = x.chunks(width).zip(c.chunks_mut(width)).map(|(x, c)| fp8::quantize_row(x, c)).collect();
    store.put_codes(codes, c);
    store.put_f32(scales, s);
}
