//! `Rows` and `RotateQuantize`: row functions, alone or with the INT8 row quantizer behind them.

use super::activation::sigmoid;
use super::norm::mean;
use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::graph::{RowOp, Step};
use crate::numerics::int8::{self, Int8Mode, Int8Rows};

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    match *step {
        Step::Rows { op, out } => {
            let y = apply(op, operands, store)?;
            store.put_f32(out, y);
            Ok(())
        }
        Step::RotateQuantize { op, rotation, codes, scales, rows }
            if operands.int8 == Int8Rows::Unrounded && rotation.mode == Int8Mode::Standard =>
        {
            let y = apply(op, operands, store)?;
            let width = store.cols(op.x());
            let mut scaled = y.clone();
            let mut s = vec![0.0; y.len() / width.max(1)];
            let tasks: Vec<_> = scaled.chunks_mut(width).zip(&mut s).collect();
            parallel::each(tasks, |(row, scale)| *scale = int8::scale_row(row, rotation.group));
            store.put_f32(codes, scaled);
            store.put_f32(scales, s);
            if let Some(rows) = rows {
                store.put_f32(rows, y);
            }
            Ok(())
        }
        Step::RotateQuantize { op, rotation, codes, scales, rows } => {
            let y = apply(op, operands, store)?;
            let width = store.cols(op.x());
            let mut c = vec![0; y.len()];
            let mut s = vec![0.0; y.len() / width.max(1)];
            // Scales are found beside the codes, one task a row.
            let tasks: Vec<_> = c.chunks_mut(width).zip(&mut s).zip(y.chunks(width)).collect();
            parallel::each(tasks, |((codes, scale), row)| {
                let mut scratch = vec![0.0; row.len()];
                *scale = int8::quantize_row(row, rotation.group, rotation.mode, &mut scratch, codes);
            });
            store.put_int8(codes, c);
            store.put_f32(scales, s);
            if let Some(rows) = rows {
                store.put_f32(rows, y);
            }
            Ok(())
        }
        _ => Err(misrouted(step)),
    }
}

/// All rows of a row function.
fn apply(op: RowOp, operands: &Operands<'_>, store: &Store<'_>) -> Result<Vec<f32>> {
    let width = store.cols(op.x());
    let mut y = store.f32(op.x())?.to_vec();
    match op {
        RowOp::Copy { .. } => {}
        RowOp::RmsNorm { weight, eps, .. } => {
            let w = operands.vector(weight)?;
            parallel::chunks(&mut y, width, |_, y| {
                let scale = 1.0 / (mean(y, |v| v * v) + eps).sqrt();
                y.iter_mut().zip(&w).for_each(|(y, w)| *y = *y * scale * (1.0 + w));
            });
        }
        RowOp::GatedRmsNorm { gate, weight, eps, .. } => {
            let w = operands.vector(weight)?;
            let (gates, stride) = (store.f32(gate.tensor)?, store.cols(gate.tensor));
            parallel::chunks(&mut y, width, |row, y| {
                let gates = gates[row * stride + gate.start..][..width].chunks(w.len());
                for (y, gates) in y.chunks_mut(w.len()).zip(gates) {
                    let scale = 1.0 / (mean(y, |v| v * v) + eps).sqrt();
                    for ((y, w), z) in y.iter_mut().zip(&w).zip(gates) {
                        *y = *y * scale * w * (z * sigmoid(*z));
                    }
                }
            });
        }
        RowOp::SigmoidGate { gate, .. } => {
            let (gates, stride) = (store.f32(gate.tensor)?, store.cols(gate.tensor));
            parallel::chunks(&mut y, width, |row, y| {
                for (head, y) in y.chunks_mut(gate.width).enumerate() {
                    let gates = &gates[row * stride + gate.start + head * gate.stride..][..gate.width];
                    y.iter_mut().zip(gates).for_each(|(y, g)| *y *= sigmoid(*g));
                }
            });
        }
    }
    Ok(y)
}
