//! The vision tower's own steps: `AddPositions`, `MergeRows`, `ReplaceRows`.

use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::graph::Step;

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    match *step {
        Step::AddPositions { x, table, taps, weights, out } => {
            let rows = operands.graph.weight(table).shape[0];
            let taps = store.indices(taps, rows)?;
            let (width, mut y) = (store.cols(x), store.f32(x)?.to_vec());
            let weights = store.f32(weights)?;
            let table = operands.vector(table)?;
            parallel::chunks(&mut y, width, |r, y| {
                let mut sum = vec![0.0; width];
                for (tap, weight) in taps[4 * r..][..4].iter().zip(&weights[4 * r..]) {
                    let row = &table[tap * width..][..width];
                    sum.iter_mut().zip(row).for_each(|(s, t)| *s += weight * t);
                }
                y.iter_mut().zip(sum).for_each(|(y, s)| *y += s);
            });
            store.put_f32(out, y);
        }
        Step::MergeRows { x, out } => {
            let y = store.f32(x)?.to_vec();
            if y.len() != store.zeros(out).len() {
                return Err(crate::Error::Internal("merged rows do not fit".to_owned()));
            }
            store.put_f32(out, y);
        }
        Step::ReplaceRows { x, rows, with, out } => {
            let rows = store.indices(rows, store.rows(x))?;
            let (width, mut y) = (store.cols(x), store.f32(x)?.to_vec());
            for (row, from) in rows.iter().zip(store.f32(with)?.chunks(width)) {
                y[row * width..][..width].copy_from_slice(from);
            }
            store.put_f32(out, y);
        }
        _ => return Err(misrouted(step)),
    }
    Ok(())
}
