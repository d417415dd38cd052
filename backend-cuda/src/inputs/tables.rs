//! Rows of tables that stay on the host: gathered for each batch, one an id, in their stored form.

use std::ops::Range;

use dikast_core::backend::Batch;
use dikast_core::checkpoint::{StoredType, TensorView, Weights};
use dikast_core::graph::{Graph, InputKind, Residency, Sizes, Step, WeightId};
use dikast_core::{Error, Result};
use rayon::prelude::*;

use crate::forms;

/// Rows that are copied by one thread and uploaded while the next are copied: to wake other threads takes longer.
const FEW_ROWS: usize = 64;
/// The same where there are many: copied by all threads.
const MANY_ROWS: usize = 2048;

/// The rows of one table that a batch needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    weight: WeightId,
    ids: InputKind,
    offset: usize,
    row_bytes: usize,
    stored: StoredType,
}

/// All tables of a graph, one after the other at the end of the block.
pub(super) fn of(
    graph: &Graph,
    weights: &Weights,
    bucket: &Sizes,
    reserve: &mut dyn FnMut(usize) -> usize,
) -> Result<Vec<Table>> {
    let mut tables: Vec<Table> = Vec::new();
    for step in graph.steps() {
        let (Step::Embed { ids, table, .. } | Step::PoolTableRows { ids, table, .. }) = *step else {
            continue;
        };
        let weight = graph.weight(table);
        if weight.residency != Residency::HostRows || tables.iter().any(|t| t.weight == table) {
            continue;
        }
        let parts = forms::parts(graph, weights, table)?;
        let stored = parts.first().map_or(StoredType::F32, |p| p.dtype);
        if parts.iter().any(|p| p.dtype != stored) {
            return Err(Error::Internal(format!("{} mixes types", weight.name)));
        }
        let row_bytes = weight.shape[1] * stored.bytes();
        let offset = reserve(row_bytes * graph.len(ids, bucket));
        tables.push(Table { weight: table, ids: graph.input_kind(ids)?, offset, row_bytes, stored });
    }
    Ok(tables)
}

impl Table {
    /// Offset and stored type of the rows of this table.
    pub(super) fn is(&self, weight: WeightId) -> Option<(usize, StoredType)> {
        (self.weight == weight).then_some((self.offset, self.stored))
    }

    /// Writes the rows of the ids from `first` on, as many as are worth an upload of their own; what is to be uploaded and
    /// the next id, or `None` after the last.
    pub(super) fn write(
        &self,
        graph: &Graph,
        weights: &Weights,
        batch: &Batch,
        first: usize,
        block: &mut [u8],
    ) -> Result<Option<(Range<usize>, usize)>> {
        let ids = batch.get(self.ids)?;
        let count = if ids.len() > 8 * FEW_ROWS { MANY_ROWS } else { FEW_ROWS };
        let next = ids.len().min(first + count);
        let Some(ids) = ids.get(first..next).filter(|ids| !ids.is_empty()) else { return Ok(None) };
        let parts = forms::parts(graph, weights, self.weight)?;
        let range = self.offset + first * self.row_bytes..self.offset + next * self.row_bytes;
        let rows = block
            .get_mut(range.clone())
            .ok_or_else(|| Error::Internal("the rows of a table do not fit their buffer".to_owned()))?;
        gather(&parts, ids, rows, self.row_bytes)?;
        Ok(Some((range, next)))
    }
}

/// Copies the table rows of `ids`.
fn gather(parts: &[TensorView<'_>], ids: &[i32], rows: &mut [u8], row_bytes: usize) -> Result<()> {
    let copy = |ids: &[i32], rows: &mut [u8]| -> Result<()> {
        for (&id, row) in ids.iter().zip(rows.chunks_exact_mut(row_bytes)) {
            row.copy_from_slice(row_of(parts, id as usize, row_bytes)?);
        }
        Ok(())
    };
    if ids.len() <= FEW_ROWS {
        return copy(ids, rows);
    }
    ids.par_chunks(FEW_ROWS)
        .zip(rows.par_chunks_mut(FEW_ROWS * row_bytes))
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
    Err(Error::Internal(format!("id {id} is not in the table")))
}
