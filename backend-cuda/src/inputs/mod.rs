//! What the host uploads for a batch: sizes, the graph's inputs, lists of tiles, rows of tables that stay on the host.
//! Checked here, because a kernel does not check an index.

mod before;
mod tables;
mod tiles;

use std::ops::Range;

use dikast_core::backend::{Batch, InputChecks};
use dikast_core::checkpoint::{StoredType, Weights};
use dikast_core::graph::{DType, Graph, InputKind, Sizes, Symbol, TensorId, WeightId};
use dikast_core::{Error, Result};

use crate::prefix::Pieces;

pub(crate) use before::{Before, Kept};
use tables::Table;
pub(crate) use tiles::TileList;

const ALIGN: usize = 256;

/// Uploads a range of the block, which is written no more.
pub(crate) type Upload<'a> = dyn FnMut(Range<usize>) -> Result<()> + 'a;

/// Every size that a kernel may read, in the order in which they are uploaded.
const SYMBOLS: [Symbol; 9] = [
    Symbol::Tokens,
    Symbol::Sequences,
    Symbol::Labels,
    Symbol::TextTokens,
    Symbol::Questions,
    Symbol::OptionTokens,
    Symbol::Patches,
    Symbol::MediaTokens,
    Symbol::Frames,
];

/// Offsets in the uploaded block, for the capacities of a bucket.
#[derive(Debug, Clone)]
pub(crate) struct InputLayout {
    checks: InputChecks,
    fields: Vec<Field>,
    lists: Vec<TileList>,
    tables: Vec<Table>,
    before: Option<(Before, Pieces)>,
    /// Bytes in all.
    pub(crate) bytes: usize,
    /// Bytes before the rows of tables.
    head: usize,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    kind: InputKind,
    tensor: TensorId,
    offset: usize,
}

impl InputLayout {
    /// `pieces`: what the graph's steps keep, where rows are kept or sequences go on after kept ones.
    pub(crate) fn new(
        graph: &Graph,
        weights: &Weights,
        bucket: &Sizes,
        pieces: Option<&Pieces>,
    ) -> Result<Self> {
        let mut bytes = ALIGN; // the sizes
        let mut reserve = |size: usize| {
            let offset = bytes;
            bytes += size.max(1).next_multiple_of(ALIGN);
            offset
        };
        let fields = graph
            .inputs()
            .iter()
            .map(|input| Field {
                kind: input.kind,
                tensor: input.tensor,
                offset: reserve(4 * graph.len(input.tensor, bucket)),
            })
            .collect();
        let lists = tiles::of(graph, bucket, &mut reserve)?;
        let before = pieces.map(|p| (Before::new(p, bucket.sequences, &mut reserve), p.clone()));
        let head = reserve(0);
        let tables = tables::of(graph, weights, bucket, &mut reserve)?;
        Ok(Self { checks: InputChecks::new(graph)?, fields, lists, tables, before, bytes, head })
    }

    /// Offset of the number of rows that a symbol stands for.
    pub(crate) fn size_offset(symbol: Symbol) -> usize {
        4 * SYMBOLS.iter().position(|s| *s == symbol).unwrap_or(0)
    }

    /// Offset of an input tensor.
    pub(crate) fn offset(&self, tensor: TensorId) -> Option<usize> {
        self.fields.iter().find(|f| f.tensor == tensor).map(|f| f.offset)
    }

    /// The tile list of a step.
    pub(crate) fn list(&self, q: TensorId, kv: TensorId, lengths: Option<TensorId>) -> Option<TileList> {
        self.lists.iter().find(|l| l.is(q, kv, lengths)).copied()
    }

    /// Offset and stored type of the rows gathered from a table, in the order of their ids.
    pub(crate) fn table_of(&self, weight: WeightId) -> Option<(usize, StoredType)> {
        self.tables.iter().find_map(|t| t.is(weight))
    }

    /// Where the inputs say what was kept of earlier rows.
    pub(crate) fn before(&self) -> Option<Before> {
        self.before.as_ref().map(|(before, _)| *before)
    }

    /// Checks a batch, writes it to the block, and uploads parts of that as they are ready. `kept` has an entry a sequence: what
    /// it goes on after, with `after`, or else where its rows are kept; or it is empty.
    pub(crate) fn write(
        &self,
        source: (&Graph, &Weights),
        batch: &Batch,
        kept: (&[Option<Kept>], bool),
        block: &mut [u8],
        upload: &mut Upload<'_>,
    ) -> Result<()> {
        self.checks.hold(batch)?;
        let (head, rows) = block
            .split_at_mut_checked(self.head)
            .ok_or_else(|| Error::Internal("the inputs do not fit their buffer".to_owned()))?;
        let mut head = Some(head);
        let mut write_head = |upload: &mut Upload<'_>| match head.take() {
            Some(head) => {
                self.write_head(source.0, batch, kept, head)?;
                upload(0..self.head)
            }
            None => Ok(()),
        };
        for table in &self.tables {
            table.gather(source, batch, (&mut *rows, self.head), upload, &mut write_head)?;
        }
        write_head(upload)
    }

    /// Everything but the rows of tables.
    fn write_head(
        &self,
        graph: &Graph,
        batch: &Batch,
        (kept, after): (&[Option<Kept>], bool),
        block: &mut [u8],
    ) -> Result<()> {
        put(block, 0, &SYMBOLS.map(|symbol| batch.sizes.get(symbol) as i32))?;
        for field in &self.fields {
            if field.kind.dtype() == DType::F32 {
                let want = graph.len(field.tensor, &batch.sizes);
                put(block, field.offset, batch.get_reals(field.kind, want)?)?;
            } else {
                put(block, field.offset, batch.get(field.kind)?)?;
            }
        }
        let mut joined = None;
        if let Some((before, pieces)) = &self.before {
            let offsets = batch.get(InputKind::SequenceOffsets)?;
            let none = vec![None; batch.sizes.sequences];
            let kept = if kept.is_empty() { &none } else { kept };
            if kept.len() != batch.sizes.sequences {
                return Err(Error::Internal(format!(
                    "{} snapshots for {} sequences",
                    kept.len(),
                    batch.sizes.sequences
                )));
            }
            before.write(pieces, offsets, kept, block)?;
            joined = after.then(|| before::joined(offsets, kept));
        }
        self.lists.iter().try_for_each(|list| list.write(batch, joined.as_deref(), block))
    }
}

fn put<T: bytemuck::Pod>(block: &mut [u8], offset: usize, values: &[T]) -> Result<()> {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    block
        .get_mut(offset..offset + bytes.len())
        .ok_or_else(|| Error::Internal("an input does not fit its buffer".to_owned()))?
        .copy_from_slice(bytes);
    Ok(())
}
