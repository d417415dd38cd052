//! `Attention`: one sequence, one head and a block of queries at a time.

use super::activation::softmax;
use super::gemm::{Scalar, Strided};
use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::graph::{RelativeBias, Step};

/// Queries per task; scores of `BLOCK × keys` are the only scratch.
const BLOCK: usize = 64;

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    let Step::Attention { q, k, v, q_offsets, kv_offsets, kv_lengths, heads, head_dim, scale, bias, out } =
        *step
    else {
        return Err(misrouted(step));
    };
    let q_offsets = store.offsets(q_offsets, store.rows(q.tensor))?;
    let kv_offsets = store.offsets(kv_offsets, store.rows(k.tensor))?;
    let lengths = kv_lengths.map(|id| store.indices(id, usize::MAX)).transpose()?;
    let longest = kv_offsets.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
    let bias = bias.map(|b| Bias::new(b, operands, heads, longest)).transpose()?;
    let width = store.cols(out);
    let mut y = store.zeros(out);

    let mut tasks = Vec::new();
    for (s, (queries, keys)) in q_offsets.windows(2).zip(kv_offsets.windows(2)).enumerate() {
        let keys = match &lengths {
            Some(lengths) => keys[0]..(keys[0] + lengths[s]).min(keys[1]),
            None => keys[0]..keys[1],
        };
        for start in (queries[0]..queries[1]).step_by(BLOCK) {
            let rows = start..(start + BLOCK).min(queries[1]);
            let len = rows.len() * width;
            tasks.push((Task { first: start - queries[0], rows, keys: keys.clone() }, len));
        }
    }

    let matrix = |c: crate::graph::Columns| {
        Ok::<_, crate::Error>((store.f32(c.tensor)?, store.cols(c.tensor), c.start))
    };
    let (q, k, v) = (matrix(q)?, matrix(k)?, matrix(v)?);
    parallel::pieces(&mut y, tasks, |task, y| {
        let (m, n) = (task.rows.len(), task.keys.len());
        if n == 0 {
            return;
        }
        let mut scores = vec![0.0; m * n];
        let mut context = vec![0.0; m * head_dim];
        for head in 0..heads {
            let view = |(data, stride, start): (&'_ [f32], usize, usize), row: usize| {
                let from = (row * stride + start + head * head_dim).min(data.len());
                (from, stride)
            };
            let (qi, qs) = view(q, task.rows.start);
            let (ki, ks) = view(k, task.keys.start);
            let (vi, vs) = view(v, task.keys.start);
            let queries = Strided { data: &q.0[qi..], row: qs, col: 1 };
            let keys = Strided { data: &k.0[ki..], row: ks, col: 1 };
            let values = Strided { data: &v.0[vi..], row: vs, col: 1 };
            f32::product(m, head_dim, n, queries, keys.transposed(), &mut scores);
            for (i, row) in scores.chunks_mut(n).enumerate() {
                row.iter_mut().for_each(|s| *s *= scale);
                if let Some(bias) = &bias {
                    bias.add(head, task.first + i, row);
                }
                softmax(row);
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

/// A block of queries of one sequence.
struct Task {
    /// Place of the first query in its sequence.
    first: usize,
    rows: std::ops::Range<usize>,
    keys: std::ops::Range<usize>,
}

/// The relative bias by head and distance.
struct Bias {
    /// `[heads, 2·longest − 1]`: the bias of distance `d` stands at `d + longest − 1`.
    by_distance: Vec<f32>,
    longest: usize,
}

impl Bias {
    fn new(bias: RelativeBias, operands: &Operands<'_>, heads: usize, longest: usize) -> Result<Self> {
        let table = operands.vector(bias.table)?;
        let distances = || 1 - longest as i64..longest as i64;
        let buckets: Vec<usize> = distances().map(|d| bias.bucket(d)).collect();
        let by_distance =
            (0..heads).flat_map(|h| buckets.iter().map(move |b| (b, h))).map(|(b, h)| table[b * heads + h]);
        Ok(Self { by_distance: by_distance.collect(), longest })
    }

    /// Adds the bias of one query to its row of scores.
    fn add(&self, head: usize, query: usize, row: &mut [f32]) {
        let first = head * (2 * self.longest - 1) + self.longest - 1 - query;
        row.iter_mut().zip(&self.by_distance[first..]).for_each(|(s, b)| *s += b);
    }
}
