//! `BiLstm`.

use super::activation::sigmoid;
use super::store::{Operands, Store};
use super::{misrouted, parallel};
use crate::Result;
use crate::graph::{LstmDirection, Step};

pub(super) fn run(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    let Step::BiLstm { x, offsets, lengths, forward, backward, out } = *step else {
        return Err(misrouted(step));
    };
    let offsets = store.offsets(offsets, store.rows(x))?;
    let lengths = store.indices(lengths, usize::MAX)?;
    let (width, hidden, mut y) = (store.cols(x), store.cols(out) / 2, store.zeros(out));
    let source = store.f32(x)?;
    let forward = Cell::new(forward, operands, hidden)?;
    let backward = Cell::new(backward, operands, hidden)?;
    let tasks = offsets.windows(2).zip(lengths).map(|(rows, length)| {
        let count = length.min(rows[1] - rows[0]);
        ((rows[0], count), (rows[1] - rows[0]) * 2 * hidden)
    });
    parallel::pieces(&mut y, tasks.collect(), |&(first, count), y| {
        let row = |i: usize| &source[(first + i) * width..][..width];
        let mut state = State::new(hidden);
        for i in 0..count {
            forward.advance(row(i), &mut state);
            y[i * 2 * hidden..][..hidden].copy_from_slice(&state.h);
        }
        state = State::new(hidden);
        for i in (0..count).rev() {
            backward.advance(row(i), &mut state);
            y[i * 2 * hidden + hidden..][..hidden].copy_from_slice(&state.h);
        }
    });
    store.put_f32(out, y);
    Ok(())
}

/// Hidden and cell state.
struct State {
    h: Vec<f32>,
    c: Vec<f32>,
}

impl State {
    fn new(hidden: usize) -> Self {
        Self { h: vec![0.0; hidden], c: vec![0.0; hidden] }
    }
}

/// One direction's weights, widened.
struct Cell {
    input: Vec<f32>,
    recurrent: Vec<f32>,
    bias: Vec<f32>,
    hidden: usize,
}

impl Cell {
    fn new(direction: LstmDirection, operands: &Operands<'_>, hidden: usize) -> Result<Self> {
        let mut bias = operands.vector(direction.input_bias)?;
        bias.iter_mut().zip(operands.vector(direction.hidden_bias)?).for_each(|(a, b)| *a += b);
        Ok(Self {
            input: operands.vector(direction.input)?,
            recurrent: operands.vector(direction.hidden)?,
            bias,
            hidden,
        })
    }

    /// `i, f, g, o = W·x + U·h + b`; `c = σ(f)·c + σ(i)·tanh(g)`; `h = σ(o)·tanh(c)`.
    fn advance(&self, x: &[f32], state: &mut State) {
        let gate = |g: usize, j: usize| {
            let r = g * self.hidden + j;
            dot(&self.input[r * x.len()..][..x.len()], x)
                + dot(&self.recurrent[r * self.hidden..][..self.hidden], &state.h)
                + self.bias[r]
        };
        let next: Vec<(f32, f32)> = (0..self.hidden)
            .map(|j| {
                let (i, f, g, o) = (gate(0, j), gate(1, j), gate(2, j), gate(3, j));
                let c = sigmoid(f) * state.c[j] + sigmoid(i) * g.tanh();
                (c, sigmoid(o) * c.tanh())
            })
            .collect();
        for (j, (c, h)) in next.into_iter().enumerate() {
            (state.c[j], state.h[j]) = (c, h);
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
