//! What a batch says of kept rows: how many stand before each sequence, and where every step's part of them lies.

use dikast_core::Result;

use super::put;
use crate::prefix::{CudaSnapshot, Pieces};

/// Kept rows before a sequence, or the place for rows to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Address of the snapshot.
    address: u64,
    /// Its rows.
    rows: usize,
}

impl From<&CudaSnapshot> for Kept {
    fn from(snapshot: &CudaSnapshot) -> Self {
        Self { address: snapshot.memory.address(), rows: snapshot.rows }
    }
}

/// Offsets in the uploaded block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// `[sequences + 1]` i32: rows of the sequences with those kept before them, from 0 on.
    pub(crate) joined: usize,
    /// One table a piece, of one address a sequence; 0 for none.
    tables: usize,
    sequences: usize,
}

impl Before {
    pub(super) fn new(pieces: &Pieces, sequences: usize, reserve: &mut dyn FnMut(usize) -> usize) -> Self {
        Self {
            joined: reserve(4 * (sequences + 1)),
            tables: reserve(8 * sequences * pieces.count()),
            sequences,
        }
    }

    /// Offset of a piece's table.
    pub(crate) fn table(&self, piece: usize) -> usize {
        self.tables + 8 * self.sequences * piece
    }

    /// Writes both; `kept` has an entry a sequence.
    pub(super) fn write(
        &self,
        pieces: &Pieces,
        offsets: &[i32],
        kept: &[Option<Kept>],
        block: &mut [u8],
    ) -> Result<()> {
        put(block, self.joined, &joined(offsets, kept))?;
        let places: Vec<Vec<usize>> =
            kept.iter().map(|k| k.map_or_else(Vec::new, |k| pieces.offsets(k.rows).collect())).collect();
        for piece in 0..pieces.count() {
            let address = |(kept, places): (&Option<Kept>, &Vec<usize>)| {
                kept.map_or(0, |k| k.address + places.get(piece).copied().unwrap_or(0) as u64)
            };
            let addresses: Vec<u64> = kept.iter().zip(&places).map(address).collect();
            put(block, self.table(piece), &addresses)?;
        }
        Ok(())
    }
}

/// Offsets of sequences with the rows kept before them.
pub(super) fn joined(offsets: &[i32], kept: &[Option<Kept>]) -> Vec<i32> {
    let mut before = 0;
    let rows = offsets.iter().enumerate().map(|(s, &offset)| {
        if let Some(Some(kept)) = s.checked_sub(1).and_then(|s| kept.get(s)) {
            before += kept.rows as i32;
        }
        offset + before
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_rows_stand_before_their_sequences() {
        let kept = |rows| Some(Kept { address: 1, rows });
        assert_eq!(joined(&[0, 5, 5, 9], &[kept(64), None, kept(128)]), [0, 69, 69, 201]);
        assert_eq!(joined(&[0, 5], &[]), [0, 5]);
    }
}
