//! The gated delta rule: a kernel over all chunks of 64 rows, then one along the chunks of each sequence
//! (`kernels/gated_delta.cuh`).

use dikast_core::graph::{Dim, Graph, Sizes, Step, Symbol, TensorId};
use dikast_core::{Error, Result};

use super::Builder;
use crate::args::{Address, arguments};
use crate::inputs::InputLayout;
use crate::launch::{Grid, Launch};
use crate::layout::{self, Stored};

/// Rows of a chunk.
const CHUNK: usize = 64;
/// Floats of a chunk and value head.
const FACTORS: usize = 2 * CHUNK + 4;
/// Floats of a row of the matrices that the first kernel inverts.
const FLOAT_PITCH: usize = CHUNK + 4;

arguments! {
    /// `gated_delta.cuh`
    GatedDelta {
        x: Address, gates: Address, decay: Address, decay_bias: Address, offsets: Address, sequences: Address,
        keys: Address, pairs: Address, factors: Address, out: Address, from: Address, to: Address,
        pitch: i32, key_heads: i32, value_heads: i32, out_stored: i32, stages: i32, pad: i32,
    }
}

impl Builder<'_> {
    pub(super) fn gated_delta(&self, step: &Step) -> Result<Vec<Launch>> {
        let Step::GatedDelta {
            x,
            gates,
            decay,
            decay_bias,
            offsets,
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            out,
        } = *step
        else {
            return Err(Error::Internal("not a delta step".to_owned()));
        };
        let stored = self.stored(x);
        if stored == Stored::F16 || self.stored(gates) != Stored::F32 || self.stored(out) == Stored::F16 {
            return Err(self.device.lacks("the gated delta rule on these formats"));
        }
        if key_heads == 0 || value_heads % key_heads != 0 {
            return Err(self.device.lacks(format!(
                "{value_heads} value heads for {key_heads} key heads (a multiple is needed)"
            )));
        }
        let entries = entries(key_dim, stored).filter(|_| key_dim == value_dim).ok_or_else(|| {
            self.device
                .lacks(format!("delta heads {key_dim} and {value_dim} wide (both 32, 64 or 128 are needed)"))
        })?;

        let room = Room::of(self.graph, x, (key_heads, key_dim), value_heads, &self.bucket, stored);
        // Few sequences spread over more processors; many read less with all columns of a head in one block.
        let sequences = self.bucket.sequences;
        let warps = match (key_dim, entries.wide) {
            (128, Some(_)) if 2 * value_heads * sequences > self.device.processors => 8,
            (32, _) => 2,
            _ => 4,
        };
        let stage = stage_bytes(key_dim, stored, warps);
        let stages = if 2 * stage <= self.device.shared { 2 } else { 1 };
        let keys = self.scratch();
        let pairs = keys + room.keys as u64;
        let arguments = GatedDelta {
            x: self.tensor(x)?,
            gates: self.tensor(gates)?,
            decay: self.vector(decay)?,
            decay_bias: self.vector(decay_bias)?,
            offsets: self.tensor(offsets)?,
            sequences: self.block + InputLayout::size_offset(Symbol::Sequences) as u64,
            keys,
            pairs,
            factors: pairs + room.pairs as u64,
            out: self.tensor(out)?,
            from: 0,
            to: 0,
            pitch: self.cols(x) as i32,
            key_heads: key_heads as i32,
            value_heads: value_heads as i32,
            out_stored: self.stored(out) as i32,
            stages: stages as i32,
            pad: 0,
        };
        let rows = 2 * planes(stored) * CHUNK * (2 * key_dim + 16);
        let shared = rows.max(2 * CHUNK * FLOAT_PITCH * 4);
        let chunks = Grid::new(value_heads, room.slots, 128).shared(shared);
        let blocks = value_heads * (key_dim / 16 / warps);
        let state = Grid::new(blocks, sequences, 32 * warps).shared(stages * stage);
        let walk = if warps == 8 { entries.wide.unwrap_or(entries.state) } else { entries.state };
        Ok(vec![
            self.launch("gated_delta_chunks", entries.chunks, chunks, &arguments)?,
            self.launch("gated_delta_state", walk, state, &arguments)?,
        ])
    }
}

/// The kernels for heads of a width.
struct Entries {
    chunks: &'static str,
    state: &'static str,
    /// The second with all columns of a head in one block.
    wide: Option<&'static str>,
}

fn entries(width: usize, stored: Stored) -> Option<Entries> {
    let (chunks, state, wide) = match (width, stored) {
        (32, Stored::F32) => ("gated_delta_chunks_32_f32", "gated_delta_state_32_f32", None),
        (64, Stored::F32) => ("gated_delta_chunks_64_f32", "gated_delta_state_64_f32", None),
        (128, Stored::F32) => ("gated_delta_chunks_128_f32", "gated_delta_state_128_f32", None),
        (32, Stored::BF16) => ("gated_delta_chunks_32_bf16", "gated_delta_state_32_bf16", None),
        (64, Stored::BF16) => ("gated_delta_chunks_64_bf16", "gated_delta_state_64_bf16", None),
        (128, Stored::BF16) => (
            "gated_delta_chunks_128_bf16",
            "gated_delta_state_128_bf16",
            Some("gated_delta_state_128_bf16_wide"),
        ),
        _ => return None,
    };
    Some(Entries { chunks, state, wide })
}

/// Planes of an operand: float32 rows are split into head and tail.
fn planes(stored: Stored) -> usize {
    if stored == Stored::F32 { 2 } else { 1 }
}

/// Bytes of a chunk's operands in the second kernel: keys and queries, pairs, values, factors.
fn stage_bytes(width: usize, stored: Stored, warps: usize) -> usize {
    let rows = 2 * planes(stored) * CHUNK;
    rows * (2 * width + 16)
        + rows * (2 * CHUNK + 16)
        + CHUNK * (warps * 16 * stored.bytes() + 16)
        + 4 * FACTORS
}

/// Memory between the kernels, in bytes.
struct Room {
    /// Chunks that a bucket has room for: every sequence may end in one that is not full.
    slots: usize,
    keys: usize,
    pairs: usize,
    factors: usize,
}

impl Room {
    fn of(
        graph: &Graph,
        x: TensorId,
        (key_heads, width): (usize, usize),
        value_heads: usize,
        bucket: &Sizes,
        stored: Stored,
    ) -> Self {
        let rows = graph.tensor(x).shape.first().map_or(0, |d: &Dim| d.bind(bucket));
        let slots = rows / CHUNK + bucket.sequences;
        let planes = 2 * planes(stored) * CHUNK;
        let aligned = |bytes: usize| bytes.next_multiple_of(layout::ALIGN as usize);
        Self {
            slots,
            keys: aligned(slots * key_heads * planes * width * 2),
            pairs: aligned(slots * value_heads * planes * CHUNK * 2),
            factors: aligned(slots * value_heads * FACTORS * 4),
        }
    }
}

/// Bytes that the step needs while it runs.
pub(super) fn scratch_bytes(graph: &Graph, step: &Step, bucket: &Sizes) -> usize {
    let Step::GatedDelta { x, key_heads, value_heads, key_dim, .. } = *step else { return 0 };
    let stored = layout::storage(graph).get(x.index()).copied().unwrap_or_default();
    let room = Room::of(graph, x, (key_heads, key_dim), value_heads, bucket, stored);
    room.keys + room.pairs + room.factors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slot of chunk `c` of sequence `s`, as the kernels count.
    fn slot(offsets: &[usize], s: usize, c: usize) -> usize {
        offsets[s] / CHUNK + s + c
    }

    #[test]
    fn slots_are_apart_and_within_their_room() {
        for lengths in
            [vec![1usize], vec![0, 0, 1], vec![63, 64, 65, 0, 1, 1, 128, 300], vec![64; 7], vec![65; 9]]
        {
            let mut offsets = vec![0];
            lengths.iter().for_each(|n| offsets.push(offsets[offsets.len() - 1] + n));
            let taken: Vec<usize> = (0..lengths.len())
                .flat_map(|s| (0..lengths[s].div_ceil(CHUNK)).map(move |c| (s, c)))
                .map(|(s, c)| slot(&offsets, s, c))
                .collect();
            assert!(taken.windows(2).all(|w| w[0] < w[1]), "{lengths:?}");
            let room = offsets[lengths.len()] / CHUNK + lengths.len();
            assert!(taken.iter().all(|&slot| slot < room), "{lengths:?}");
        }
    }

    #[test]
    fn a_stage_fits_the_chips() {
        // Two for Hopper at the large models' size, one for Ada.
        assert!(2 * stage_bytes(128, Stored::BF16, 8) <= 227 << 10);
        assert!(stage_bytes(128, Stored::BF16, 4) <= 99 << 10);
        assert!(stage_bytes(128, Stored::F32, 4) <= 227 << 10);
        assert!(stage_bytes(64, Stored::F32, 4) <= 99 << 10);
    }
}
