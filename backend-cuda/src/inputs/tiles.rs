//! Lists of tiles: consecutive rows of one sequence, made from the offsets of each batch.

use dikast_core::backend::Batch;
use dikast_core::graph::{Graph, InputKind, Sizes, Step, TensorId};
use dikast_core::{Error, Result};

use super::put;
use crate::args::AttentionTile;

/// Rows of one tile.
const TILE: usize = 64;

/// The tiles of steps over the same sequences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TileList {
    q_offsets: TensorId,
    kv_offsets: TensorId,
    kv_lengths: Option<TensorId>,
    kinds: (InputKind, InputKind, Option<InputKind>),
    /// An i32: the number of tiles.
    pub(crate) count: usize,
    pub(crate) tiles: usize,
    pub(crate) capacity: usize,
}

/// All lists of a graph.
pub(super) fn of(
    graph: &Graph,
    bucket: &Sizes,
    reserve: &mut dyn FnMut(usize) -> usize,
) -> Result<Vec<TileList>> {
    let mut lists: Vec<TileList> = Vec::new();
    for step in graph.steps() {
        let (rows, q_offsets, kv_offsets, kv_lengths) = match *step {
            Step::Attention { q, q_offsets, kv_offsets, kv_lengths, .. } => {
                (q.tensor, q_offsets, kv_offsets, kv_lengths)
            }
            Step::CausalAttention { q, offsets, .. } => (q.tensor, offsets, offsets, None),
            _ => continue,
        };
        if lists.iter().any(|l| l.is(q_offsets, kv_offsets, kv_lengths)) {
            continue;
        }
        let kind = |id| graph.input_kind(id);
        // Every sequence may end in a tile that is not full.
        let capacity = graph.tensor(rows).shape[0].bind(bucket) / TILE
            + graph.tensor(q_offsets).shape[0].bind(bucket)
            - 1;
        lists.push(TileList {
            q_offsets,
            kv_offsets,
            kv_lengths,
            kinds: (kind(q_offsets)?, kind(kv_offsets)?, kv_lengths.map(kind).transpose()?),
            count: reserve(4),
            tiles: reserve(capacity * size_of::<AttentionTile>()),
            capacity,
        });
    }
    Ok(lists)
}

impl TileList {
    pub(super) fn is(&self, q: TensorId, kv: TensorId, lengths: Option<TensorId>) -> bool {
        (self.q_offsets, self.kv_offsets, self.kv_lengths) == (q, kv, lengths)
    }

    /// Writes the tiles of a batch. `joined`: the sequences' offsets with the rows kept before them, where there are any.
    pub(super) fn write(&self, batch: &Batch, joined: Option<&[i32]>, block: &mut [u8]) -> Result<()> {
        let tiles = self.of_batch(batch, joined)?;
        if tiles.len() > self.capacity {
            return Err(Error::Internal(format!("{} tiles, {} fit", tiles.len(), self.capacity)));
        }
        put(block, self.count, &[tiles.len() as i32])?;
        put(block, self.tiles, &tiles)
    }

    /// The tiles of a batch: rows of one sequence, from its first.
    fn of_batch(&self, batch: &Batch, joined: Option<&[i32]>) -> Result<Vec<AttentionTile>> {
        let (queries, keys) = (batch.get(self.kinds.0)?, batch.get(self.kinds.1)?);
        let joined = joined.filter(|_| self.kinds.1 == InputKind::SequenceOffsets);
        let (keys, causal) = (joined.unwrap_or(keys), self.kinds.0 == InputKind::SequenceOffsets);
        let lengths = self.kinds.2.map(|kind| batch.get(kind)).transpose()?;
        let mut tiles = Vec::new();
        for (s, (q, k)) in queries.windows(2).zip(keys.windows(2)).enumerate() {
            let count = (k[1] - k[0]).min(lengths.map_or(i32::MAX, |l| l[s]));
            // Queries of the same rows as the keys stand after the kept ones.
            let before = if joined.is_some() && causal { (k[1] - k[0]) - (q[1] - q[0]) } else { 0 };
            for query in (q[0]..q[1]).step_by(TILE) {
                tiles.push(AttentionTile {
                    query,
                    queries: (q[1] - query).min(TILE as i32),
                    place: before + query - q[0],
                    key: k[0],
                    keys: count,
                });
            }
        }
        Ok(tiles)
    }
}
