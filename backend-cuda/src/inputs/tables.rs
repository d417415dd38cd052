//! Rows of tables that stay on the host: gathered for each batch, one an id, in their stored form.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use dikast_core::backend::Batch;
use dikast_core::checkpoint::{StoredType, TensorView, Weights};
use dikast_core::graph::{Graph, InputKind, Residency, Sizes, Step, WeightId};
use dikast_core::{Error, Result};

use super::Upload;
use crate::forms;

/// Rows that are not worth the waking of another thread.
const FEW_ROWS: usize = 64;
/// Rows that a thread takes at a time where several copy.
const PIECE_ROWS: usize = 32;
/// Rows for each thread that is asked to help, and the most of those: they take what is left when they come.
const HELPED_ROWS: usize = 128;
const MOST_HELPERS: usize = 8;
/// Bytes worth an upload of their own: those are on their way while the next are copied.
const UPLOAD_BYTES: usize = 256 << 10;

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

    /// Writes the rows of a batch's ids to the block, of which `rows` is the part from byte `begin` on, and uploads them as they
    /// are ready. `meanwhile` runs once those who help are on their way.
    pub(super) fn gather(
        &self,
        (graph, weights): (&Graph, &Weights),
        batch: &Batch,
        (rows, begin): (&mut [u8], usize),
        upload: &mut Upload<'_>,
        meanwhile: &mut dyn FnMut(&mut Upload<'_>) -> Result<()>,
    ) -> Result<()> {
        let ids = batch.get(self.ids)?;
        let parts = forms::parts(graph, weights, self.weight)?;
        let bytes = ids.len() * self.row_bytes;
        let rows = self.offset.checked_sub(begin).and_then(|from| rows.get_mut(from..from + bytes));
        let rows =
            rows.ok_or_else(|| Error::Internal("the rows of a table do not fit their buffer".to_owned()))?;
        if ids.len() <= FEW_ROWS {
            meanwhile(upload)?;
            copy(&parts, ids, rows, self.row_bytes)?;
            return if bytes == 0 { Ok(()) } else { upload(self.offset..self.offset + bytes) };
        }

        let (pieces, piece_bytes) = (ids.len().div_ceil(PIECE_ROWS), PIECE_ROWS * self.row_bytes);
        let left = Mutex::new(ids.chunks(PIECE_ROWS).zip(rows.chunks_mut(piece_bytes)).enumerate());
        let copied: Vec<AtomicBool> = (0..pieces).map(|_| AtomicBool::new(false)).collect();
        let failure = OnceLock::new();
        // Copies the next piece; false where there is none left.
        let take = || {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((piece, (ids, rows))) = next else { return false };
            if let Err(error) = copy(&parts, ids, rows, self.row_bytes) {
                let _ = failure.set(error);
            }
            copied[piece].store(true, Ordering::Release);
            true
        };
        let helpers = (ids.len() / HELPED_ROWS).min(MOST_HELPERS).min(rayon::current_num_threads() - 1);
        rayon::in_place_scope(|scope| {
            for _ in 0..helpers {
                scope.spawn(|_| while take() {});
            }
            meanwhile(upload)?;
            let mut uploaded = 0;
            while uploaded < pieces {
                let ready = copied[uploaded..].iter().take_while(|c| c.load(Ordering::Acquire)).count();
                let end = uploaded + ready;
                // Worth an upload, or all that this thread can do.
                if end == pieces || ready * piece_bytes >= UPLOAD_BYTES || (!take() && ready > 0) {
                    let to = bytes.min(end * piece_bytes);
                    upload(self.offset + uploaded * piece_bytes..self.offset + to)?;
                    uploaded = end;
                } else if ready == 0 {
                    std::hint::spin_loop();
                }
            }
            Ok(())
        })?;
        failure.into_inner().map_or(Ok(()), Err)
    }
}

/// Copies the table rows of `ids`.
fn copy(parts: &[TensorView<'_>], ids: &[i32], rows: &mut [u8], row_bytes: usize) -> Result<()> {
    for (&id, row) in ids.iter().zip(rows.chunks_exact_mut(row_bytes)) {
        row.copy_from_slice(row_of(parts, id as usize, row_bytes)?);
    }
    Ok(())
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
