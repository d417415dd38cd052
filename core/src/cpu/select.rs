//! `Embed`, `SelectRows`, `Concat`: rows moved, nothing computed but one addition.

use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::graph::Step;

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    match *step {
        Step::Embed { ids, table, segments, out } => {
            let rows = operands.graph.weight(table).shape[0];
            let ids = store.indices(ids, rows)?;
            let parts = operands.parts(table)?;
            let segments = match segments {
                Some((ids, table)) => {
                    let rows = operands.graph.weight(table).shape[0];
                    Some((store.indices(ids, rows)?, operands.vector(table)?))
                }
                None => None,
            };
            let (width, mut y) = (store.cols(out), store.zeros(out));
            parallel::chunks(&mut y, width, |t, y| {
                let mut row = ids[t];
                for part in &parts {
                    if row < part.shape[0] {
                        part.decode_rows(row..row + 1, y);
                        break;
                    }
                    row -= part.shape[0];
                }
                if let Some((ids, table)) = &segments {
                    y.iter_mut().zip(&table[ids[t] * width..]).for_each(|(y, s)| *y += s);
                }
            });
            store.put_f32(out, y);
        }
        Step::SelectRows { x, rows, out } => {
            let rows = store.indices(rows, store.rows(x))?;
            let (width, mut y) = (store.cols(out), store.zeros(out));
            let source = store.f32(x)?;
            parallel::chunks(&mut y, width, |r, y| y.copy_from_slice(&source[rows[r] * width..][..width]));
            store.put_f32(out, y);
        }
        Step::Concat { left, left_rows, right, out } => {
            let rows = left_rows.map(|rows| store.indices(rows, store.rows(left))).transpose()?;
            let (a, b, mut y) = (store.cols(left), store.cols(right), store.zeros(out));
            let (left, right) = (store.f32(left)?, store.f32(right)?);
            parallel::chunks(&mut y, a + b, |r, y| {
                let from = rows.as_ref().map_or(r, |rows| rows[r]);
                y[..a].copy_from_slice(&left[from * a..][..a]);
                y[a..].copy_from_slice(&right[r * b..][..b]);
            });
            store.put_f32(out, y);
        }
        _ => return Err(misrouted(step)),
    }
    Ok(())
}
