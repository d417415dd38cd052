//! `GatedDelta`: one sequence and one value head at a time, in chunks.
//!
//! In a chunk, with `G_i = Σ_{j≤i} g_j`, `D_ij = e^(G_i − G_j)` for `i ≥ j` and the state `S` before it:
//!
//! ```text
//! A = tril((β·K) Kᵀ · D, −1)
//! solve (I + A) U = β·V  and  (I + A) W = β·K·e^G
//! V' = U − W S
//! out = (Q·e^G) S + (tril(Q Kᵀ) · D) V'
//! S ← e^(G_C) S + (K·e^(G_C − G))ᵀ V'
//! ```
//!
//! Chunks begin at the first row of their sequence, so a row's bits do not depend on the batch.

use super::activation::sigmoid;
use super::gemm::{Scalar, Strided};
use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::graph::Step;

/// Rows of a chunk.
const CHUNK: usize = 64;
/// Added to the squared norm of queries and keys.
const EPS: f32 = 1e-6;

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    let Step::GatedDelta {
        x,
        gates,
        decay,
        decay_bias,
        offsets,
        key_heads,
        value_heads,
        key_dim,
        value_dim,
        out,
    } = *step
    else {
        return Err(misrouted(step));
    };
    let (rows, stride) = (store.rows(x), store.cols(x));
    let offsets = store.offsets(offsets, rows)?;
    let (a_log, bias) = (operands.vector(decay)?, operands.vector(decay_bias)?);
    let (x, gates) = (store.f32(x)?, store.f32(gates)?);
    let group = value_heads / key_heads;

    // One head of one sequence after the other, each `[len, value_dim]`.
    let mut by_head = vec![0.0; rows * value_heads * value_dim];
    let mut tasks = Vec::new();
    for range in offsets.windows(2) {
        for head in 0..value_heads {
            tasks.push(((range[0]..range[1], head), (range[1] - range[0]) * value_dim));
        }
    }
    parallel::pieces(&mut by_head, tasks, |(range, head), y| {
        let key = head / group * key_dim;
        let value = 2 * key_heads * key_dim + head * value_dim;
        let rate = a_log[*head].exp();
        let gate = |row: usize| {
            let gates = &gates[row * 2 * value_heads..][..2 * value_heads];
            (-rate * softplus(gates[*head] + bias[*head]), sigmoid(gates[value_heads + head]))
        };
        let mut state = State::new(key_dim, value_dim);
        for (start, y) in range.clone().step_by(CHUNK).zip(y.chunks_mut(CHUNK * value_dim)) {
            let mut chunk = Chunk::default();
            for row in start..range.end.min(start + CHUNK) {
                let row_of = |from: usize, width: usize| &x[row * stride + from..][..width];
                chunk.push(
                    row_of(key, key_dim),
                    row_of(key_heads * key_dim + key, key_dim),
                    row_of(value, value_dim),
                    gate(row),
                );
            }
            state.advance(&chunk, y);
        }
    });

    let mut y = store.zeros(out);
    let mut rest = by_head.as_slice();
    for range in offsets.windows(2) {
        for head in 0..value_heads {
            let (own, tail) = rest.split_at((range[1] - range[0]) * value_dim);
            for (row, from) in (range[0]..range[1]).zip(own.chunks(value_dim)) {
                y[(row * value_heads + head) * value_dim..][..value_dim].copy_from_slice(from);
            }
            rest = tail;
        }
    }
    store.put_f32(out, y);
    Ok(())
}

/// `ln(1 + eˣ)`, the identity above 20.
fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

/// Appends `x · rsqrt(Σx² + ε) · scale`.
fn push_unit(x: &[f32], scale: f32, out: &mut Vec<f32>) {
    let sum = x.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() as f32;
    let factor = 1.0 / (sum + EPS).sqrt();
    out.extend(x.iter().map(|v| v * factor * scale));
}

/// The rows of one chunk: queries and keys normed.
#[derive(Debug, Default)]
struct Chunk {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    /// Sums of the logarithmic decay up to each row.
    decay: Vec<f32>,
    beta: Vec<f32>,
}

impl Chunk {
    fn push(&mut self, q: &[f32], k: &[f32], v: &[f32], (decay, beta): (f32, f32)) {
        push_unit(q, 1.0 / (q.len() as f32).sqrt(), &mut self.q);
        push_unit(k, 1.0, &mut self.k);
        self.v.extend_from_slice(v);
        self.decay.push(self.decay.last().copied().unwrap_or(0.0) + decay);
        self.beta.push(beta);
    }
}

/// `S`, `[key_dim, value_dim]`.
struct State {
    s: Vec<f32>,
    key_dim: usize,
    value_dim: usize,
}

impl State {
    fn new(key_dim: usize, value_dim: usize) -> Self {
        Self { s: vec![0.0; key_dim * value_dim], key_dim, value_dim }
    }

    /// Runs a chunk; `out` is `[rows, value_dim]`.
    fn advance(&mut self, chunk: &Chunk, out: &mut [f32]) {
        let (dk, dv, n) = (self.key_dim, self.value_dim, chunk.beta.len());
        let g = &chunk.decay;
        let keys = Strided::rows(&chunk.k, dk);
        let mut kk = vec![0.0; n * n];
        f32::product(n, dk, n, keys, keys.transposed(), &mut kk);
        let mut qk = vec![0.0; n * n];
        f32::product(n, dk, n, Strided::rows(&chunk.q, dk), keys.transposed(), &mut qk);
        for i in 0..n {
            for j in 0..n {
                let decay = if j <= i { (g[i] - g[j]).exp() } else { 0.0 };
                qk[i * n + j] *= decay;
                kk[i * n + j] *= if j < i { chunk.beta[i] * decay } else { 0.0 };
            }
        }

        // [U | W] side by side, by forward substitution.
        let width = dv + dk;
        let mut uw = vec![0.0; n * width];
        for i in 0..n {
            let (done, rest) = uw.split_at_mut(i * width);
            let row = &mut rest[..width];
            let (b, e) = (chunk.beta[i], g[i].exp());
            row[..dv].iter_mut().zip(&chunk.v[i * dv..]).for_each(|(u, v)| *u = b * v);
            row[dv..].iter_mut().zip(&chunk.k[i * dk..]).for_each(|(w, k)| *w = b * e * k);
            for (j, before) in done.chunks(width).enumerate() {
                let a = kk[i * n + j];
                row.iter_mut().zip(before).for_each(|(r, p)| *r -= a * p);
            }
        }

        let state = Strided::rows(&self.s, dv);
        let mut fresh = vec![0.0; n * dv];
        f32::product(n, dk, dv, Strided { data: &uw[dv..], row: width, col: 1 }, state, &mut fresh);
        for (i, row) in fresh.chunks_mut(dv).enumerate() {
            row.iter_mut().zip(&uw[i * width..]).for_each(|(f, u)| *f = u - *f);
        }

        let decayed = |rows: &[f32], factor: &dyn Fn(usize) -> f32| -> Vec<f32> {
            rows.chunks(dk)
                .enumerate()
                .flat_map(|(i, row)| row.iter().map(move |v| (i, v)))
                .map(|(i, v)| v * factor(i))
                .collect()
        };
        let q = decayed(&chunk.q, &|i| g[i].exp());
        f32::product(n, dk, dv, Strided::rows(&q, dk), state, out);
        let mut within = vec![0.0; n * dv];
        f32::product(n, n, dv, Strided::rows(&qk, n), Strided::rows(&fresh, dv), &mut within);
        out.iter_mut().zip(&within).for_each(|(o, w)| *o += w);

        let last = g[n - 1];
        let k = decayed(&chunk.k, &|i| (last - g[i]).exp());
        let mut added = vec![0.0; dk * dv];
        f32::product(dk, n, dv, Strided::rows(&k, dk).transposed(), Strided::rows(&fresh, dv), &mut added);
        let keep = last.exp();
        self.s.iter_mut().zip(&added).for_each(|(s, a)| *s = keep * *s + a);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic values in −1..1.
    fn values(n: usize, seed: u64) -> Vec<f32> {
        let mut state = seed | 1;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 40) as f32 / (1 << 24) as f32) * 2.0 - 1.0
            })
            .collect()
    }

    /// The plain recurrence in f64.
    fn recurrence(
        q: &[f32],
        k: &[f32],
        v: &[f32],
        g: &[f32],
        beta: &[f32],
        dk: usize,
        dv: usize,
    ) -> Vec<f64> {
        let unit = |x: &[f32], scale: f64| -> Vec<f64> {
            let sum: f64 = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() + f64::from(EPS);
            x.iter().map(|&v| f64::from(v) / sum.sqrt() * scale).collect()
        };
        let mut s = vec![0.0_f64; dk * dv];
        let mut out = Vec::new();
        for t in 0..beta.len() {
            let q = unit(&q[t * dk..][..dk], 1.0 / (dk as f64).sqrt());
            let k = unit(&k[t * dk..][..dk], 1.0);
            s.iter_mut().for_each(|s| *s *= f64::from(g[t]).exp());
            for j in 0..dv {
                let seen: f64 = (0..dk).map(|i| s[i * dv + j] * k[i]).sum();
                let delta = f64::from(beta[t]) * (f64::from(v[t * dv + j]) - seen);
                (0..dk).for_each(|i| s[i * dv + j] += k[i] * delta);
            }
            out.extend((0..dv).map(|j| (0..dk).map(|i| s[i * dv + j] * q[i]).sum::<f64>()));
        }
        out
    }

    #[test]
    fn chunks_agree_with_the_recurrence() {
        let (dk, dv) = (32, 24);
        for (n, strength) in [(1, 1.0), (63, 0.1), (64, 1.0), (65, 8.0), (300, 0.01), (300, 3.0)] {
            let (q, k, v) = (values(n * dk, 1), values(n * dk, 2), values(n * dv, 3));
            let g: Vec<f32> = values(n, 4).iter().map(|x| -strength * x.abs()).collect();
            let beta: Vec<f32> = values(n, 5).iter().map(|x| sigmoid(4.0 * x)).collect();
            let mut out = vec![0.0; n * dv];
            let mut state = State::new(dk, dv);
            for (start, y) in (0..n).step_by(CHUNK).zip(out.chunks_mut(CHUNK * dv)) {
                let mut chunk = Chunk::default();
                for t in start..n.min(start + CHUNK) {
                    chunk.push(&q[t * dk..][..dk], &k[t * dk..][..dk], &v[t * dv..][..dv], (g[t], beta[t]));
                }
                state.advance(&chunk, y);
            }
            let exact = recurrence(&q, &k, &v, &g, &beta, dk, dv);
            let norm: f64 = exact.iter().map(|x| x * x).sum::<f64>().sqrt();
            let error = out.iter().zip(&exact).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum::<f64>().sqrt();
            assert!(error < 1e-5 * norm, "{n} rows, decay {strength}: {error:.1e} of {norm:.1e}");
        }
    }
}
