//! Rows of pictures: positions, merging, their place among the tokens.
//!
//! Rows may lie where the result lies (`layout::arena`): both have one address then, and nothing is copied.

use dikast_core::Result;
use dikast_core::graph::{Step, TensorId};

use super::{Builder, ROW_THREADS};
use crate::args::{Address, arguments};
use crate::launch::{Grid, Launch};

arguments! {
    /// `media.cu`
    AddPositions {
        x: Address, table: Address, taps: Address, weights: Address, out: Address, rows: Address, width: i32, pad: i32,
    }
    /// `media.cu`
    CopyRows { x: Address, out: Address, rows: Address, width: i32, pad: i32 }
    /// `media.cu`
    PutRows { from: Address, index: Address, out: Address, rows: Address, width: i32, pad: i32 }
}

impl Builder<'_> {
    /// None, one or two launches: where the layout lets merged or replaced rows lie where the old ones lie, nothing is
    /// copied.
    pub(super) fn media_rows(&self, step: &Step) -> Result<Vec<Launch>> {
        match *step {
            Step::AddPositions { x, table, taps, weights, out } => {
                let arguments = AddPositions {
                    x: self.float32(x)?,
                    table: self.vector(table)?,
                    taps: self.tensor(taps)?,
                    weights: self.tensor(weights)?,
                    out: self.float32(out)?,
                    rows: self.rows(out)?,
                    width: self.quads_wide(out)?,
                    pad: 0,
                };
                Ok(vec![self.launch("media", "add_positions", self.by_quad(out), &arguments)?])
            }
            Step::MergeRows { x, out } => Ok(self.copy(x, out)?.into_iter().collect()),
            Step::ReplaceRows { x, rows, with, out } => {
                let arguments = PutRows {
                    from: self.float32(with)?,
                    index: self.tensor(rows)?,
                    out: self.float32(out)?,
                    rows: self.rows(with)?,
                    width: self.quads_wide(out)?,
                    pad: 0,
                };
                let put = self.by_row("media", "put_rows", with, &arguments)?;
                Ok(self.copy(x, out)?.into_iter().chain([put]).collect())
            }
            _ => Err(crate::support::lacking(step)),
        }
    }

    /// The rows of `x` as the bytes of `out`; nothing when they are there.
    fn copy(&self, x: TensorId, out: TensorId) -> Result<Option<Launch>> {
        let (from, to) = (self.float32(x)?, self.float32(out)?);
        if from == to {
            return Ok(None);
        }
        let arguments =
            CopyRows { x: from, out: to, rows: self.rows(x)?, width: self.quads_wide(x)?, pad: 0 };
        self.launch("media", "copy_rows", self.by_quad(x), &arguments).map(Some)
    }

    /// One thread for four elements of a matrix.
    pub(super) fn by_quad(&self, id: TensorId) -> Grid {
        Grid::new((self.capacity(id) * self.cols(id) / 4).div_ceil(ROW_THREADS), 1, ROW_THREADS)
    }
}
