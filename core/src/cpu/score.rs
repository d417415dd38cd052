//! The scorers' own steps: `PairProduct`, `HopfieldMix`, `Dot`, `Scale`.

use super::activation::softmax;
use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::graph::Step;

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    match *step {
        Step::PairProduct { text, classes, owner, out } => {
            let owner = store.indices(owner, store.rows(text))?;
            let (two, mut y) = (store.cols(classes), store.zeros(out));
            let d = two / 2;
            let (text, classes) = (store.f32(text)?, store.f32(classes)?);
            parallel::chunks(&mut y, 3 * d, |l, y| {
                let (t, c) = (&text[owner[l] * two..][..two], &classes[l * two..][..two]);
                y[..d].copy_from_slice(&t[..d]);
                y[d..2 * d].copy_from_slice(&c[..d]);
                for (i, y) in y[2 * d..].iter_mut().enumerate() {
                    *y = t[d + i] * c[d + i];
                }
            });
            store.put_f32(out, y);
        }
        Step::HopfieldMix { query, key, value, classes, offsets, beta, out } => {
            let offsets = store.offsets(offsets, store.rows(classes))?;
            let (d, mut y) = (store.cols(classes), store.f32(classes)?.to_vec());
            let (query, key, value) = (store.f32(query)?, store.f32(key)?, store.f32(value)?);
            for (s, labels) in offsets.windows(2).enumerate() {
                let mut attention: Vec<f32> = (labels[0]..labels[1])
                    .map(|l| beta * dot(&query[l * d..][..d], &key[s * d..][..d]))
                    .collect();
                softmax(&mut attention);
                for (l, a) in (labels[0]..labels[1]).zip(attention) {
                    y[l * d..][..d].iter_mut().zip(&value[s * d..][..d]).for_each(|(y, v)| *y += a * v);
                }
            }
            store.put_f32(out, y);
        }
        Step::Dot { text, classes, owner, out } => {
            let owner = store.indices(owner, store.rows(text))?;
            let d = store.cols(classes);
            let (text, classes) = (store.f32(text)?, store.f32(classes)?);
            let y = owner.iter().zip(classes.chunks(d)).map(|(&s, c)| dot(&text[s * d..][..d], c)).collect();
            store.put_f32(out, y);
        }
        Step::Scale { x, by, out } => {
            let by = operands.vector(by)?.first().copied().unwrap_or(1.0);
            let y = store.f32(x)?.iter().map(|x| x * by).collect();
            store.put_f32(out, y);
        }
        _ => return Err(misrouted(step)),
    }
    Ok(())
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
