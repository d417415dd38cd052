//! `CausalConv`.

use super::activation::sigmoid;
use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::graph::Step;

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    let Step::CausalConv { x, weight, offsets, out } = *step else { return Err(misrouted(step)) };
    let (stride, rows) = (store.cols(x.tensor), store.rows(x.tensor));
    let offsets = store.offsets(offsets, rows)?;
    let taps = operands.graph.weight(weight).shape[2];
    let w = operands.vector(weight)?;
    let (width, mut y) = (store.cols(out), store.zeros(out));
    let source = store.f32(x.tensor)?;
    // First row of the sequence of each row.
    let first: Vec<usize> = offsets.windows(2).flat_map(|s| std::iter::repeat_n(s[0], s[1] - s[0])).collect();
    parallel::chunks(&mut y, width, |t, y| {
        for (j, back) in (0..taps).rev().enumerate() {
            if t < first[t] + back {
                continue;
            }
            let row = &source[(t - back) * stride + x.start..][..width];
            for (c, (y, x)) in y.iter_mut().zip(row).enumerate() {
                *y += w[c * taps + j] * x;
            }
        }
        y.iter_mut().for_each(|y| *y *= sigmoid(*y));
    });
    store.put_f32(out, y);
    Ok(())
}
