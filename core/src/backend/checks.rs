//! Whether a batch's inputs lead a kernel out of its tensors: kernels do not check an index.

use super::Batch;
use crate::graph::{Dim, Graph, InputKind, Step, TensorId};
use crate::{Error, Result};

/// What an input must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Every value is in `0..limit`.
    Below(InputKind, Dim),
    /// Every value is in `0..=limit`.
    UpTo(InputKind, Dim),
    /// No value is negative.
    Counts(InputKind),
    /// Ascending from 0 to the number of rows.
    Offsets(InputKind, Dim),
    /// First row, end and zero rows; not empty.
    TextSpans(InputKind, Dim),
}

/// What the inputs of a graph must be, from the steps that read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputChecks(Vec<Check>);

impl InputChecks {
    /// The checks of a graph.
    ///
    /// # Errors
    /// [`Error::Internal`] when a step reads indices that are no input.
    pub fn new(graph: &Graph) -> Result<Self> {
        let mut checks = Vec::new();
        for step in graph.steps() {
            of_step(graph, step, &mut checks)?;
        }
        Ok(Self(checks))
    }

    /// Checks a batch.
    ///
    /// # Errors
    /// [`Error::Internal`] naming the input that is missing or out of range.
    pub fn hold(&self, batch: &Batch) -> Result<()> {
        self.0.iter().try_for_each(|check| check.holds(batch))
    }
}

fn of_step(graph: &Graph, step: &Step, checks: &mut Vec<Check>) -> Result<()> {
    let rows = |id: TensorId| graph.tensor(id).shape[0];
    let kind = |id: TensorId| graph.input_kind(id);
    let mut add = |check: Check| {
        if !checks.contains(&check) {
            checks.push(check);
        }
    };
    match *step {
        Step::Embed { ids, table, segments, .. } => {
            add(Check::Below(kind(ids)?, Dim::Fixed(graph.weight(table).shape[0])));
            if let Some((ids, table)) = segments {
                add(Check::Below(kind(ids)?, Dim::Fixed(graph.weight(table).shape[0])));
            }
        }
        Step::Attention { q, k, q_offsets, kv_offsets, kv_lengths, .. } => {
            add(Check::Offsets(kind(q_offsets)?, rows(q.tensor)));
            add(Check::Offsets(kind(kv_offsets)?, rows(k.tensor)));
            if let Some(lengths) = kv_lengths {
                add(Check::Counts(kind(lengths)?));
            }
        }
        Step::SelectRows { x, rows: list, .. } => add(Check::Below(kind(list)?, rows(x))),
        Step::PoolSpans { x, spans, .. } => add(Check::UpTo(kind(spans)?, rows(x))),
        Step::PoolText { x, spans, .. } => add(Check::TextSpans(kind(spans)?, rows(x))),
        Step::BiLstm { x, offsets, lengths, .. } => {
            add(Check::Offsets(kind(offsets)?, rows(x)));
            add(Check::Counts(kind(lengths)?));
        }
        Step::Concat { left, left_rows: Some(list), .. } => add(Check::Below(kind(list)?, rows(left))),
        Step::PairProduct { text, owner, .. } | Step::Dot { text, owner, .. } => {
            add(Check::Below(kind(owner)?, rows(text)));
        }
        Step::HopfieldMix { classes, offsets, .. } => {
            add(Check::Offsets(kind(offsets)?, rows(classes)));
        }
        Step::CausalAttention { q, offsets, .. } => add(Check::Offsets(kind(offsets)?, rows(q.tensor))),
        Step::CausalConv { x, offsets, .. } => add(Check::Offsets(kind(offsets)?, rows(x.tensor))),
        Step::GatedDelta { x, offsets, .. } | Step::SoftmaxPool { x, offsets, .. } => {
            add(Check::Offsets(kind(offsets)?, rows(x)));
        }
        Step::AddPositions { table, taps, .. } => {
            add(Check::Below(kind(taps)?, Dim::Fixed(graph.weight(table).shape[0])));
        }
        Step::ReplaceRows { x, rows: list, .. } => add(Check::Below(kind(list)?, rows(x))),
        Step::PoolTableRows { ids, offsets, table, .. } => {
            add(Check::Below(kind(ids)?, Dim::Fixed(graph.weight(table).shape[0])));
            add(Check::Offsets(kind(offsets)?, rows(ids)));
        }
        Step::PairFeatures { left, owner, .. } => add(Check::Below(kind(owner)?, rows(left))),
        Step::JointScore { question, summary, sequence, owner, .. } => {
            add(Check::Below(kind(owner)?, rows(question)));
            add(Check::Below(kind(sequence)?, rows(summary)));
        }
        _ => {}
    }
    Ok(())
}

impl Check {
    fn holds(self, batch: &Batch) -> Result<()> {
        let bind = |dim: Dim| dim.bind(&batch.sizes);
        let all = |kind: InputKind, limit: usize| {
            let inside = |v: &i32| usize::try_from(*v).is_ok_and(|v| v < limit);
            if batch.get(kind)?.iter().all(inside) {
                Ok(())
            } else {
                Err(Error::Internal(format!("{}: a value is not in 0..{limit}", kind.name())))
            }
        };
        match self {
            Self::Below(kind, limit) => all(kind, bind(limit)),
            Self::UpTo(kind, limit) => all(kind, bind(limit) + 1),
            Self::Counts(kind) => all(kind, usize::MAX),
            Self::Offsets(kind, rows) => {
                let rows = bind(rows);
                all(kind, rows + 1)?;
                let offsets = batch.get(kind)?;
                let ascending = offsets.windows(2).all(|w| w[0] <= w[1]);
                let whole =
                    offsets.first() == Some(&0) && offsets.last().copied() == i32::try_from(rows).ok();
                if ascending && whole {
                    Ok(())
                } else {
                    Err(Error::Internal(format!("{}: not ascending from 0 to {rows}", kind.name())))
                }
            }
            Self::TextSpans(kind, rows) => {
                all(kind, usize::MAX)?;
                let rows = bind(rows) as i64;
                let inside = |s: &[i32]| {
                    let [first, end, zeros] = [s[0], s[1], s[2]].map(i64::from);
                    first <= end && end <= rows && end - first + zeros > 0
                };
                if batch.get(kind)?.chunks_exact(3).all(inside) {
                    Ok(())
                } else {
                    Err(Error::Internal(format!("{}: a text span is empty or out of range", kind.name())))
                }
            }
        }
    }
}
