//! The joint schema head's own steps.

use super::activation::{sigmoid, softmax};
use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::checkpoint::TensorView;
use crate::graph::Step;

/// Logarithmic weights are at most this: `ln 100`.
const MAX_LOG_SCALE: f32 = 4.605_170_2;

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    match step {
        Step::PoolTableRows { ids, offsets, table, out } => {
            let ids = store.indices(*ids, operands.graph.weight(*table).shape[0])?;
            let offsets = store.offsets(*offsets, ids.len())?;
            let parts = operands.parts(*table)?;
            let (width, mut y) = (store.cols(*out), store.zeros(*out));
            parallel::chunks(&mut y, width, |l, y| {
                let ids = &ids[offsets[l]..offsets[l + 1]];
                let mut row = vec![0.0; width];
                for &id in ids {
                    decode_row(&parts, id, &mut row);
                    y.iter_mut().zip(&row).for_each(|(y, x)| *y += x);
                }
                let count = ids.len().max(1) as f32;
                y.iter_mut().for_each(|y| *y /= count);
            });
            store.put_f32(*out, y);
        }
        Step::SoftmaxPool { x, query, offsets, scale, out } => {
            let offsets = store.offsets(*offsets, store.rows(*x))?;
            let (width, mut y) = (store.cols(*out), store.zeros(*out));
            let (x, query) = (store.f32(*x)?, store.f32(*query)?);
            parallel::chunks(&mut y, width, |g, y| {
                let rows = &x[offsets[g] * width..offsets[g + 1] * width];
                let query = &query[g * width..][..width];
                let mut weights: Vec<f32> =
                    rows.chunks(width).map(|row| dot(row, query) as f32 * scale).collect();
                softmax(&mut weights);
                for (row, weight) in rows.chunks(width).zip(weights) {
                    y.iter_mut().zip(row).for_each(|(y, x)| *y += weight * x);
                }
            });
            store.put_f32(*out, y);
        }
        Step::Sum { terms, out } => {
            let mut y = store.f32(terms[0])?.to_vec();
            for term in &terms[1..] {
                y.iter_mut().zip(store.f32(*term)?).for_each(|(y, x)| *y += x);
            }
            store.put_f32(*out, y);
        }
        Step::PairFeatures { left, right, owner, out } => {
            let owner = store.indices(*owner, store.rows(*left))?;
            let (d, mut y) = (store.cols(*right), store.zeros(*out));
            let (left, right) = (store.f32(*left)?, store.f32(*right)?);
            parallel::chunks(&mut y, 4 * d, |r, y| {
                let (f, o) = (&left[owner[r] * d..][..d], &right[r * d..][..d]);
                for i in 0..d {
                    y[i] = f[i];
                    y[d + i] = o[i];
                    y[2 * d + i] = f[i] * o[i];
                    y[3 * d + i] = (f[i] - o[i]).abs();
                }
            });
            store.put_f32(*out, y);
        }
        Step::JointScore { .. } => return score(step, operands, store),
        _ => return Err(misrouted(step)),
    }
    Ok(())
}

fn score(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    let Step::JointScore {
        question,
        summary,
        sequence,
        lexical,
        field,
        option,
        owner,
        residual,
        prior_scale,
        joint_scale,
        gate,
        out,
    } = *step
    else {
        return Err(misrouted(step));
    };
    let scalar = |id| operands.vector(id).map(|v| v.first().copied().unwrap_or(0.0));
    let prior_scale = scalar(prior_scale)?.min(MAX_LOG_SCALE).exp();
    let joint_scale = scalar(joint_scale)?.min(MAX_LOG_SCALE).exp();
    let gate = sigmoid(scalar(gate)?);
    let owner = store.indices(owner, store.rows(question))?;
    let sequence = store.indices(sequence, store.rows(summary))?;
    let (h, w) = (store.cols(question), store.cols(field));
    let (question, summary, lexical) = (store.f32(question)?, store.f32(summary)?, store.f32(lexical)?);
    let (field, option, residual) = (store.f32(field)?, store.f32(option)?, store.f32(residual)?);
    let logits = owner.iter().enumerate().map(|(r, &q)| {
        let (question, summary) = (&question[q * h..][..h], &summary[sequence[q] * h..][..h]);
        let anchor: Vec<f32> = question.iter().zip(summary).map(|(q, s)| q + s).collect();
        let prior = cosine(&lexical[r * h..][..h], &anchor, 1e-12);
        let joint = cosine(&field[q * w..][..w], &option[r * w..][..w], 1e-8);
        prior_scale * prior + gate * (joint_scale * joint + residual[r])
    });
    let logits = logits.collect();
    store.put_f32(out, logits);
    Ok(())
}

/// One row of a table given as stacked parts.
fn decode_row(parts: &[TensorView<'_>], mut row: usize, out: &mut [f32]) {
    for part in parts {
        if row < part.shape[0] {
            return part.decode_rows(row..row + 1, out);
        }
        row -= part.shape[0];
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The product of two vectors over their norms, each norm at least `least`; sums in f64, rounded once.
fn cosine(a: &[f32], b: &[f32], least: f64) -> f32 {
    (dot(a, b) / (dot(a, a).sqrt().max(least) * dot(b, b).sqrt().max(least))) as f32
}
