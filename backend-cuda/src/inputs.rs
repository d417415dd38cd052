//! What the host uploads for a batch: sizes, the graph's inputs, attention tiles, embedding rows. Checked here, because a
//! kernel does not check an index.

use std::ops::Range;

use dikast_core::backend::Batch;
use dikast_core::checkpoint::{StoredType, TensorView, Weights};
use dikast_core::graph::{Dim, Graph, InputKind, Sizes, Step, Symbol, TensorId, WeightId};
use dikast_core::{Error, Result};
use rayon::prelude::*;

use crate::args::AttentionTile;
use crate::forms;

/// Queries of one attention tile.
const TILE: usize = 64;
const ALIGN: usize = 256;

/// Offsets in the uploaded block, for the capacities of a bucket.
#[derive(Debug, Clone)]
pub(crate) struct InputLayout {
    fields: Vec<Field>,
    lists: Vec<TileList>,
    table: Option<Table>,
    /// Bytes in all.
    pub(crate) bytes: usize,
    /// Bytes before the embedding rows.
    head: usize,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    kind: InputKind,
    tensor: TensorId,
    offset: usize,
}

/// The tiles of attention steps that share queries' and keys' offsets.
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

/// The rows of the embedding table that a batch needs.
#[derive(Debug, Clone, Copy)]
struct Table {
    weight: WeightId,
    offset: usize,
    row_bytes: usize,
    stored: StoredType,
}

impl InputLayout {
    pub(crate) fn new(graph: &Graph, weights: &Weights, bucket: &Sizes) -> Result<Self> {
        let mut at = ALIGN; // the sizes
        let mut reserve = |bytes: usize| {
            let offset = at;
            at += bytes.max(1).next_multiple_of(ALIGN);
            offset
        };
        let mut fields = Vec::new();
        for input in graph.inputs() {
            let elements = graph.len(input.tensor, bucket);
            fields.push(Field { kind: input.kind, tensor: input.tensor, offset: reserve(4 * elements) });
        }
        let kind_of = |tensor: TensorId| {
            graph.inputs().iter().find(|i| i.tensor == tensor).map(|i| i.kind).ok_or_else(|| {
                Error::Internal(format!("{} is no input of the graph", graph.tensor(tensor).name))
            })
        };
        let mut lists: Vec<TileList> = Vec::new();
        let mut table = None;
        for step in graph.steps() {
            match *step {
                Step::Attention { q, q_offsets, kv_offsets, kv_lengths, .. } => {
                    if lists.iter().any(|l| l.is(q_offsets, kv_offsets, kv_lengths)) {
                        continue;
                    }
                    let rows = graph.tensor(q.tensor).shape[0].bind(bucket);
                    // Every sequence may end in a tile that is not full.
                    let capacity = rows / TILE + bucket.sequences;
                    lists.push(TileList {
                        q_offsets,
                        kv_offsets,
                        kv_lengths,
                        kinds: (
                            kind_of(q_offsets)?,
                            kind_of(kv_offsets)?,
                            kv_lengths.map(kind_of).transpose()?,
                        ),
                        count: reserve(4),
                        tiles: reserve(capacity * size_of::<AttentionTile>()),
                        capacity,
                    });
                }
                Step::Embed { table: weight, .. } => table = Some(weight),
                _ => {}
            }
        }
        let head = at;
        let table = match table {
            None => None,
            Some(weight) => {
                let parts = forms::parts(graph, weights, weight)?;
                let stored = parts.first().map_or(StoredType::F32, |p| p.dtype);
                if parts.iter().any(|p| p.dtype != stored) {
                    return Err(Error::Internal(format!("{} mixes types", graph.weight(weight).name)));
                }
                let row_bytes = graph.weight(weight).shape[1] * stored.bytes();
                let offset = at;
                at += (row_bytes * bucket.tokens).max(1).next_multiple_of(ALIGN);
                Some(Table { weight, offset, row_bytes, stored })
            }
        };
        Ok(Self { fields, lists, table, bytes: at, head })
    }

    /// Offset of the number of rows that a symbol stands for.
    pub(crate) fn size_offset(symbol: Symbol) -> usize {
        match symbol {
            Symbol::Tokens => 0,
            Symbol::Sequences => 4,
            Symbol::Labels => 8,
            Symbol::TextTokens => 12,
            // No kernel of this backend counts these, see `support`.
            Symbol::Questions
            | Symbol::OptionTokens
            | Symbol::Patches
            | Symbol::MediaTokens
            | Symbol::Frames => 0,
        }
    }

    /// Offset of an input tensor.
    pub(crate) fn offset(&self, tensor: TensorId) -> Option<usize> {
        self.fields.iter().find(|f| f.tensor == tensor).map(|f| f.offset)
    }

    /// The tile list of an attention step.
    pub(crate) fn list(&self, q: TensorId, kv: TensorId, lengths: Option<TensorId>) -> Option<TileList> {
        self.lists.iter().find(|l| l.is(q, kv, lengths)).copied()
    }

    /// Offset and stored type of the rows gathered from a table, in the order of their ids.
    pub(crate) fn table_of(&self, weight: WeightId) -> Option<(usize, StoredType)> {
        self.table.filter(|t| t.weight == weight).map(|t| (t.offset, t.stored))
    }

    /// Writes all of a batch but its embedding rows; what is to be uploaded.
    pub(crate) fn write(&self, graph: &Graph, batch: &Batch, block: &mut [u8]) -> Result<Range<usize>> {
        let sizes = &batch.sizes;
        let counts = [sizes.tokens, sizes.sequences, sizes.labels, sizes.text_tokens];
        put(block, 0, &counts.map(|n| n as i32))?;
        for field in &self.fields {
            let values = batch.get(field.kind)?;
            check(graph, field.kind, values, sizes)?;
            put(block, field.offset, values)?;
        }
        for list in &self.lists {
            let tiles = list.tiles(batch)?;
            if tiles.len() > list.capacity {
                return Err(Error::Internal(format!(
                    "{} attention tiles, {} fit",
                    tiles.len(),
                    list.capacity
                )));
            }
            put(block, list.count, &[tiles.len() as i32])?;
            put(block, list.tiles, &tiles)?;
        }
        Ok(0..self.head)
    }

    /// Writes the embedding rows of the tokens from `first` on, as many as are worth an upload of their own; what is to be
    /// uploaded and the next token, or `None` after the last.
    pub(crate) fn write_rows(
        &self,
        graph: &Graph,
        weights: &Weights,
        batch: &Batch,
        first: usize,
        block: &mut [u8],
    ) -> Result<Option<(Range<usize>, usize)>> {
        let Some(table) = self.table else { return Ok(None) };
        let ids = batch.get(InputKind::TokenIds)?;
        let count = if ids.len() > 8 * FEW_TOKENS { MANY_TOKENS } else { FEW_TOKENS };
        let next = ids.len().min(first + count);
        let Some(ids) = ids.get(first..next).filter(|ids| !ids.is_empty()) else { return Ok(None) };
        let parts = forms::parts(graph, weights, table.weight)?;
        let range = table.offset + first * table.row_bytes..table.offset + next * table.row_bytes;
        let rows = block
            .get_mut(range.clone())
            .ok_or_else(|| Error::Internal("the embedding rows do not fit their buffer".to_owned()))?;
        gather(&parts, ids, rows, table.row_bytes)?;
        Ok(Some((range, next)))
    }
}

impl TileList {
    fn is(&self, q: TensorId, kv: TensorId, lengths: Option<TensorId>) -> bool {
        (self.q_offsets, self.kv_offsets, self.kv_lengths) == (q, kv, lengths)
    }

    /// The tiles of a batch: queries of one sequence, from its first.
    fn tiles(&self, batch: &Batch) -> Result<Vec<AttentionTile>> {
        let (queries, keys) = (batch.get(self.kinds.0)?, batch.get(self.kinds.1)?);
        let lengths = self.kinds.2.map(|kind| batch.get(kind)).transpose()?;
        let mut tiles = Vec::new();
        for (s, (q, k)) in queries.windows(2).zip(keys.windows(2)).enumerate() {
            let count = (k[1] - k[0]).min(lengths.map_or(i32::MAX, |l| l[s]));
            for query in (q[0]..q[1]).step_by(TILE) {
                tiles.push(AttentionTile {
                    query,
                    queries: (q[1] - query).min(TILE as i32),
                    place: query - q[0],
                    key: k[0],
                    keys: count,
                });
            }
        }
        Ok(tiles)
    }
}

/// Tokens whose rows are copied by one thread and uploaded while the next are copied: to wake other threads takes longer.
const FEW_TOKENS: usize = 64;
/// The same where there are many: copied by all threads.
const MANY_TOKENS: usize = 2048;

/// Copies the table rows of `ids`.
fn gather(parts: &[TensorView<'_>], ids: &[i32], rows: &mut [u8], row_bytes: usize) -> Result<()> {
    let copy = |ids: &[i32], rows: &mut [u8]| -> Result<()> {
        for (&id, row) in ids.iter().zip(rows.chunks_exact_mut(row_bytes)) {
            row.copy_from_slice(row_of(parts, id as usize, row_bytes)?);
        }
        Ok(())
    };
    if ids.len() <= FEW_TOKENS {
        return copy(ids, rows);
    }
    ids.par_chunks(FEW_TOKENS)
        .zip(rows.par_chunks_mut(FEW_TOKENS * row_bytes))
        .try_for_each(|(ids, rows)| copy(ids, rows))
}

fn row_of<'a>(parts: &[TensorView<'a>], id: usize, row_bytes: usize) -> Result<&'a [u8]> {
    let mut row = id;
    for part in parts {
        let rows = part.shape.first().copied().unwrap_or(1);
        if row < rows {
            return Ok(&part.bytes[row * row_bytes..(row + 1) * row_bytes]);
        }
        row -= rows;
    }
    Err(Error::Internal(format!("token id {id} is not in the table")))
}

fn put<T: bytemuck::Pod>(block: &mut [u8], offset: usize, values: &[T]) -> Result<()> {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    block
        .get_mut(offset..offset + bytes.len())
        .ok_or_else(|| Error::Internal("an input does not fit its buffer".to_owned()))?
        .copy_from_slice(bytes);
    Ok(())
}

/// Checks that no value of an input leads a kernel out of its tensors.
fn check(graph: &Graph, kind: InputKind, values: &[i32], sizes: &Sizes) -> Result<()> {
    let below = |limit: usize| values.iter().all(|&v| usize::try_from(v).is_ok_and(|v| v < limit));
    let offsets = |rows: usize| {
        values.first() == Some(&0)
            && values.last().and_then(|&v| usize::try_from(v).ok()) == Some(rows)
            && values.windows(2).all(|w| w[0] <= w[1])
    };
    let good = match kind {
        InputKind::TokenIds | InputKind::SegmentIds => graph.steps().iter().all(|step| match *step {
            Step::Embed { table, segments, .. } => match (kind, segments) {
                (InputKind::TokenIds, _) => below(graph.weight(table).shape[0]),
                (_, Some((_, table))) => below(graph.weight(table).shape[0]),
                _ => true,
            },
            _ => true,
        }),
        InputKind::SequenceOffsets => offsets(sizes.tokens),
        InputKind::LabelOffsets => offsets(sizes.labels),
        InputKind::TextOffsets => offsets(sizes.text_tokens),
        InputKind::AttendedLengths | InputKind::TextLengths => values.iter().all(|&v| v >= 0),
        InputKind::ClassSpans => below(sizes.tokens + 1),
        InputKind::LabelSequences => below(sizes.sequences),
        InputKind::TextRows => below(sizes.tokens),
        InputKind::TextSpans => {
            let rows = graph.steps().iter().find_map(|step| match *step {
                Step::PoolText { x, .. } => graph.tensor(x).shape.first().map(|d: &Dim| d.bind(sizes)),
                _ => None,
            });
            values.chunks(3).all(|s| {
                s[0] >= 0
                    && s[0] <= s[1]
                    && s[2] >= 0
                    && s[1] - s[0] + s[2] > 0
                    && usize::try_from(s[1]).is_ok_and(|end| rows.is_none_or(|rows| end <= rows))
            })
        }
        _ => false,
    };
    if good { Ok(()) } else { Err(Error::Internal(format!("{}: a value is out of range", kind.name()))) }
}
