//! `HeadRotary`.

use super::norm::mean;
use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::graph::Step;
use crate::{Error, Result};

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    let Step::HeadRotary { parts, eps, frequencies, positions, out } = step else {
        return Err(misrouted(step));
    };
    let (axes, positions) = (store.cols(*positions), store.i32(*positions)?);
    // An angle as a product of f32; its sine and cosine rounded once from f64, so that every machine has the same.
    let turns: Vec<(f32, f32)> = positions
        .chunks(axes)
        .flat_map(|row| frequencies.iter().map(move |f| row[f.axis] as f32 * f.inverse))
        .map(|angle| (libm::cos(f64::from(angle)) as f32, libm::sin(f64::from(angle)) as f32))
        .collect();
    let half = frequencies.len();
    let mut sources = Vec::with_capacity(parts.len());
    for part in parts {
        let norm = part.norm.map(|w| operands.vector(w)).transpose()?;
        sources.push((part.heads, store.f32(part.heads.tensor)?, store.cols(part.heads.tensor), norm));
    }
    let (width, mut y) = (store.cols(*out), store.zeros(*out));
    if turns.len() * axes != positions.len() * half {
        return Err(Error::Internal("positions do not fit the rows".to_owned()));
    }
    parallel::chunks(&mut y, width, |row, y| {
        let turns = &turns[row * half..][..half];
        let mut rest = y;
        for (heads, x, stride, norm) in &sources {
            for head in 0..heads.count {
                let (y, tail) = std::mem::take(&mut rest).split_at_mut(heads.width);
                y.copy_from_slice(&x[row * stride + heads.start + head * heads.stride..][..heads.width]);
                if let Some(w) = norm {
                    let scale = 1.0 / (mean(y, |v| v * v) + eps).sqrt();
                    y.iter_mut().zip(w).for_each(|(y, w)| *y = *y * scale * (1.0 + w));
                }
                for (i, (cos, sin)) in turns.iter().enumerate() {
                    let (a, b) = (y[i], y[i + half]);
                    y[i] = a * cos - b * sin;
                    y[i + half] = b * cos + a * sin;
                }
                rest = tail;
            }
        }
    });
    store.put_f32(*out, y);
    Ok(())
}
