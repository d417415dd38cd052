//! Snapshots: what later rows of a sequence need of its first ones, kept on the device in one block.

use dikast_core::graph::{Graph, InputKind, Step, TensorId};

use crate::layout;
use crate::memory::DeviceMemory;

/// Rows are kept in whole chunks of the delta rule and whole tiles of the attention's keys.
pub(crate) const UNIT: usize = 64;
/// Rows that a convolution needs of those before a sequence.
pub(crate) const TAIL: usize = 3;
/// Pieces lie at multiples of this.
const ALIGN: usize = 256;

/// The first rows of a sequence as later rows need them.
#[derive(Debug)]
pub struct CudaSnapshot {
    pub(crate) memory: DeviceMemory,
    pub(crate) rows: usize,
}

/// What one step keeps: the keys and values of every row, or something of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    step: usize,
    /// Bytes of a row.
    row: usize,
    /// Bytes besides.
    fixed: usize,
}

/// What the steps of a graph keep, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pieces(Vec<Piece>);

impl Pieces {
    /// `None` for a graph whose rows do not depend on earlier rows of their sequence alone.
    pub(crate) fn of(graph: &Graph) -> Option<Self> {
        let stored = layout::storage(graph);
        let bytes = |id: TensorId| stored[id.index()].bytes();
        let of_sequences =
            |id: TensorId| graph.input_kind(id).is_ok_and(|kind| kind == InputKind::SequenceOffsets);
        let mut pieces = Vec::new();
        for (index, step) in graph.steps().iter().enumerate() {
            let (row, fixed) = match *step {
                Step::CausalAttention { k, v, .. } => {
                    (k.width * bytes(k.tensor) + v.width * bytes(v.tensor), 0)
                }
                Step::Attention { k, v, q_offsets, kv_offsets, kv_lengths, .. } => {
                    if !of_sequences(kv_offsets) {
                        continue;
                    }
                    if of_sequences(q_offsets) || kv_lengths.is_some() {
                        return None;
                    }
                    (k.width * bytes(k.tensor) + v.width * bytes(v.tensor), 0)
                }
                Step::CausalConv { x, .. } => (0, TAIL * x.width * bytes(x.tensor)),
                Step::GatedDelta { value_heads, key_dim, value_dim, .. } => {
                    (0, 4 * value_heads * (key_dim * value_dim + 1))
                }
                Step::BiLstm { .. } | Step::PoolText { .. } => return None,
                _ => continue,
            };
            pieces.push(Piece { step: index, row, fixed });
        }
        (!pieces.is_empty()).then_some(Self(pieces))
    }

    /// Number of pieces.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The piece of a step.
    pub(crate) fn index(&self, step: usize) -> Option<usize> {
        self.0.iter().position(|p| p.step == step)
    }

    /// Where the pieces of a snapshot of `rows` rows lie, and its bytes at the end.
    pub(crate) fn offsets(&self, rows: usize) -> impl Iterator<Item = usize> {
        let ends = self.0.iter().scan(0, move |at, p| {
            *at += (p.row * rows + p.fixed).next_multiple_of(ALIGN);
            Some(*at)
        });
        std::iter::once(0).chain(ends)
    }

    /// Bytes of a snapshot of `rows` rows.
    pub(crate) fn bytes(&self, rows: usize) -> usize {
        self.offsets(rows).last().unwrap_or(0)
    }

    /// Bytes of the widest row that an attention reads.
    pub(crate) fn widest_row(&self) -> usize {
        self.0.iter().map(|p| p.row).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dikast_core::graph::{Columns, GraphBuilder};

    #[test]
    fn pieces_lie_apart() {
        let pieces = Pieces(vec![
            Piece { step: 3, row: 12, fixed: 0 },
            Piece { step: 5, row: 0, fixed: 300 },
            Piece { step: 9, row: 4, fixed: 0 },
        ]);
        assert_eq!(pieces.offsets(64).collect::<Vec<_>>(), [0, 768, 1280, 1536]);
        assert_eq!((pieces.bytes(64), pieces.widest_row()), (1536, 12));
        assert_eq!((pieces.index(5), pieces.index(4)), (Some(1), None));
    }

    #[test]
    fn rows_that_see_later_ones_are_not_kept() {
        let graph = |causal: bool| {
            let mut b = GraphBuilder::new("block");
            let ids = b.input(InputKind::TokenIds);
            let offsets = b.input(InputKind::SequenceOffsets);
            let table = b.weight("table", &[8, 48]);
            let x = b.embed("x", ids, table, None);
            let part = |i: usize| Columns { tensor: x, start: 16 * i, width: 16 };
            let operands = (part(0), part(1), part(2));
            let out = match causal {
                true => b.causal_attention("out", operands, offsets, (1, 1, 16), 1.0),
                false => b.attention("out", operands, (offsets, offsets), None, (1, 16), 1.0, None),
            };
            b.finish(out).expect("a graph")
        };
        assert_eq!(Pieces::of(&graph(false)), None);
        assert_eq!(Pieces::of(&graph(true)).expect("kept").bytes(64), 64 * 2 * 16 * 4);
    }
}
