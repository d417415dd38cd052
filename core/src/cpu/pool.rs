//! `PoolSpans` and `PoolText`.

use super::store::Store;
use super::{misrouted, parallel};
use crate::graph::{Pool, Step};
use crate::{Error, Result};

pub(super) fn run(step: &Step, store: &mut Store<'_>) -> Result<()> {
    match *step {
        Step::PoolSpans { x, spans, out } => {
            let spans = store.indices(spans, store.rows(x) + 1)?;
            let (width, mut y) = (store.cols(out), store.zeros(out));
            let source = store.f32(x)?;
            parallel::chunks(&mut y, width, |c, y| {
                let (start, end) = (spans[2 * c], spans[2 * c + 1]);
                if start < end {
                    source[start * width..end * width].chunks(width).for_each(|row| add(y, row));
                    let count = (end - start) as f32;
                    y.iter_mut().for_each(|y| *y /= count);
                }
            });
            store.put_f32(out, y);
        }
        Step::PoolText { x, spans, pool, out } => {
            let spans = store.indices(spans, usize::MAX)?;
            let (width, mut y) = (store.cols(out), store.zeros(out));
            let source = store.f32(x)?;
            let inside = spans
                .chunks(3)
                .all(|s| s[0] <= s[1] && s[1] * width <= source.len() && s[1] - s[0] + s[2] > 0);
            if !inside {
                return Err(Error::Internal("a text span is empty or out of range".to_owned()));
            }
            parallel::chunks(&mut y, width, |s, y| {
                let [start, end, zeros] = [spans[3 * s], spans[3 * s + 1], spans[3 * s + 2]];
                reduce(pool, &source[start * width..end * width], zeros, y);
            });
            store.put_f32(out, y);
        }
        _ => return Err(misrouted(step)),
    }
    Ok(())
}

/// Reduces `rows` and `zeros` rows of zeros after them to one row.
fn reduce(pool: Pool, rows: &[f32], zeros: usize, y: &mut [f32]) {
    let width = y.len();
    let each = |f: &dyn Fn(f32, f32) -> f32, y: &mut [f32]| {
        for row in rows.chunks(width) {
            y.iter_mut().zip(row).for_each(|(y, &x)| *y = f(*y, x));
        }
    };
    let count = (rows.len() / width + zeros) as f32;
    match pool {
        Pool::First if rows.is_empty() => {}
        Pool::First => y.copy_from_slice(&rows[..width]),
        Pool::Last if zeros > 0 => {}
        Pool::Last => y.copy_from_slice(&rows[rows.len() - width..]),
        Pool::Sum | Pool::Avg => each(&|y, x| y + x, y),
        Pool::Max => {
            y.fill(if zeros > 0 { 0.0 } else { f32::NEG_INFINITY });
            each(&f32::max, y);
        }
        Pool::Rms => each(&|y, x| y + x * x, y),
        Pool::AbsMax => each(&|y, x| y.max(x.abs()), y),
        Pool::AbsAvg => each(&|y, x| y + x.abs(), y),
    }
    match pool {
        Pool::Avg | Pool::AbsAvg => y.iter_mut().for_each(|y| *y /= count),
        Pool::Rms => y.iter_mut().for_each(|y| *y = (*y / count).sqrt()),
        _ => {}
    }
}

fn add(y: &mut [f32], row: &[f32]) {
    y.iter_mut().zip(row).for_each(|(y, x)| *y += x);
}
