//! Sequences that go on after kept rows, and rows that are kept for them.

use dikast_core::backend::Prefix;
use dikast_core::graph::{Columns, Sizes, Step, Symbol};
use dikast_core::{Error, Result};

use super::Builder;
use crate::args::{Address, arguments};
use crate::inputs::{Before, InputLayout};
use crate::launch::{Grid, Launch};
use crate::prefix::{Pieces, TAIL};

arguments! {
    /// `prefix_rows.cu`
    PrefixRows {
        k: Address, v: Address, kept: Address, out: Address, offsets: Address, joined: Address, sequences: Address,
        k_pitch: i32, v_pitch: i32, k_width: i32, v_width: i32, last: i32, pad: i32,
    }
}

const THREADS: usize = 128;
/// Bytes of what the kernels copy at a time.
const UNIT: usize = 8;

/// Where an attention finds a part of its operands: address of row 0, elements of a row.
pub(super) type Rows = (Address, i32);

/// Bytes of the joined keys and values of one attention.
pub(crate) fn scratch_bytes(pieces: &Pieces, bucket: &Sizes, prefix: Prefix) -> usize {
    match prefix {
        Prefix::After { rows } => (bucket.tokens + rows) * pieces.widest_row(),
        Prefix::None | Prefix::Keep => 0,
    }
}

impl Builder<'_> {
    /// What the inputs say of the rows before the sequences, and the table of addresses of a step that keeps something.
    fn kept(&self, step: &Step) -> Option<(Before, Address)> {
        let (pieces, before) = (self.pieces?, self.inputs.before()?);
        let index = self.graph.steps().iter().position(|s| std::ptr::eq(s, step))?;
        Some((before, self.block + before.table(pieces.index(index)?) as u64))
    }

    /// Table of what was kept for a step: 0 where sequences are whole.
    pub(super) fn kept_before(&self, step: &Step) -> Address {
        match self.prefix {
            Prefix::After { .. } => self.kept(step).map_or(0, |(_, table)| table),
            Prefix::None | Prefix::Keep => 0,
        }
    }

    /// Table of where a step keeps its last state: 0 where it does not.
    pub(super) fn kept_after(&self, step: &Step) -> Address {
        match self.prefix {
            Prefix::Keep => self.kept(step).map_or(0, |(_, table)| table),
            Prefix::None | Prefix::After { .. } => 0,
        }
    }

    /// Keys and values of an attention: where they are, or where [`Builder::with_prefix`] joins them with kept ones.
    pub(super) fn keys_and_values(&self, step: &Step, [k, v]: [Columns; 2]) -> Result<[Rows; 2]> {
        if self.kept_before(step) == 0 {
            let rows = |c: Columns| Ok((self.columns(c)?, self.cols(c.tensor) as i32));
            return Ok([rows(k)?, rows(v)?]);
        }
        let (at, pitch) = (self.scratch(), (k.width + v.width) as i32);
        Ok([(at, pitch), (at + (k.width * self.stored(k.tensor).bytes()) as u64, pitch)])
    }

    /// An attention, and what joins or keeps its keys and values.
    pub(super) fn with_prefix(
        &self,
        step: &Step,
        [k, v]: [Columns; 2],
        attention: Launch,
    ) -> Result<Vec<Launch>> {
        let Some((before, kept)) = self.kept(step) else { return Ok(vec![attention]) };
        Ok(match self.prefix {
            Prefix::None => vec![attention],
            Prefix::Keep => vec![attention, self.keep_rows(k, Some(v), kept, 0)?],
            Prefix::After { rows } => {
                let arguments = PrefixRows {
                    out: self.scratch(),
                    joined: self.block + before.joined as u64,
                    ..self.prefix_rows(k, Some(v), kept)?
                };
                let grid = Grid::new(self.bucket.tokens + rows, 1, THREADS);
                vec![self.launch("prefix_rows", "join_rows", grid, &arguments)?, attention]
            }
        })
    }

    /// A convolution, and what keeps its last rows.
    pub(super) fn with_tail(&self, step: &Step, x: Columns, conv: Launch) -> Result<Vec<Launch>> {
        Ok(match self.kept_after(step) {
            0 => vec![conv],
            kept => vec![conv, self.keep_rows(x, None, kept, TAIL)?],
        })
    }

    fn keep_rows(&self, k: Columns, v: Option<Columns>, kept: Address, last: usize) -> Result<Launch> {
        let arguments = PrefixRows { last: last as i32, ..self.prefix_rows(k, v, kept)? };
        self.launch("prefix_rows", "keep_rows", Grid::new(self.bucket.tokens, 1, THREADS), &arguments)
    }

    fn prefix_rows(&self, k: Columns, v: Option<Columns>, kept: Address) -> Result<PrefixRows> {
        let units = |elements: usize, c: Columns| -> Result<i32> {
            let bytes = elements * self.stored(c.tensor).bytes();
            match bytes.is_multiple_of(UNIT) && (c.start * self.stored(c.tensor).bytes()).is_multiple_of(UNIT)
            {
                true => Ok((bytes / UNIT) as i32),
                false => Err(self
                    .device
                    .lacks(format!("kept rows of {bytes} bytes (a multiple of {UNIT} is needed)"))),
            }
        };
        let offsets =
            self.graph.inputs().iter().find(|i| i.kind == dikast_core::graph::InputKind::SequenceOffsets);
        let offsets = offsets.ok_or_else(|| Error::Internal("a graph without sequences".to_owned()))?;
        let other = v.unwrap_or(k);
        Ok(PrefixRows {
            k: self.columns(k)?,
            v: self.columns(other)?,
            kept,
            out: 0,
            offsets: self.tensor(offsets.tensor)?,
            joined: 0,
            sequences: self.block + InputLayout::size_offset(Symbol::Sequences) as u64,
            k_pitch: units(self.cols(k.tensor), k)?,
            v_pitch: units(self.cols(other.tensor), other)?,
            k_width: units(k.width, k)?,
            v_width: v.map_or(Ok(0), |v| units(v.width, v))?,
            last: 0,
            pad: 0,
        })
    }
}
