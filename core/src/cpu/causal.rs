//! `CausalAttention`: one sequence, one head and a block of queries at a time.

use super::activation::softmax;
use super::gemm::{Scalar, Strided};
use super::store::Store;
use super::{misrouted, parallel};
use crate::Result;
use crate::graph::{Columns, Step};

/// Queries per task; scores of `BLOCK × keys` are the only scratch.
const BLOCK: usize = 64;

pub(super) fn run(step: &Step, store: &mut Store<'_>) -> Result<()> {
    let Step::CausalAttention { q, k, v, offsets, heads, kv_heads, head_dim, scale, out } = *step else {
        return Err(misrouted(step));
    };
    let offsets = store.offsets(offsets, store.rows(q.tensor))?;
    let (width, mut y) = (store.cols(out), store.zeros(out));
    let mut tasks = Vec::new();
    for rows in offsets.windows(2) {
        for start in (rows[0]..rows[1]).step_by(BLOCK) {
            let queries = start..(start + BLOCK).min(rows[1]);
            let len = queries.len() * width;
            tasks.push(((rows[0], queries), len));
        }
    }
    let group = heads / kv_heads;
    let matrix = |c: Columns| Ok::<_, crate::Error>((store.f32(c.tensor)?, store.cols(c.tensor), c.start));
    let (q, k, v) = (matrix(q)?, matrix(k)?, matrix(v)?);
    parallel::pieces(&mut y, tasks, |(first, queries), y| {
        let (m, n) = (queries.len(), queries.end - first);
        let mut scores = vec![0.0; m * n];
        let mut context = vec![0.0; m * head_dim];
        for head in 0..heads {
            let view = |(data, stride, start): (&'_ [f32], usize, usize), row: usize, head: usize| {
                (row * stride + start + head * head_dim).min(data.len())
            };
            let queries_of = Strided { data: &q.0[view(q, queries.start, head)..], row: q.1, col: 1 };
            let keys = Strided { data: &k.0[view(k, *first, head / group)..], row: k.1, col: 1 };
            let values = Strided { data: &v.0[view(v, *first, head / group)..], row: v.1, col: 1 };
            f32::product(m, head_dim, n, queries_of, keys.transposed(), &mut scores);
            for (i, row) in scores.chunks_mut(n).enumerate() {
                // Keys up to the query itself. What stands behind them is a zero in the sum below.
                let (seen, hidden) = row.split_at_mut(queries.start - first + i + 1);
                seen.iter_mut().for_each(|s| *s *= scale);
                softmax(seen);
                hidden.fill(0.0);
            }
            f32::product(m, n, head_dim, Strided::rows(&scores, n), values, &mut context);
            for (i, c) in context.chunks(head_dim).enumerate() {
                y[i * width + head * head_dim..][..head_dim].copy_from_slice(c);
            }
        }
    });
    store.put_f32(out, y);
    Ok(())
}
