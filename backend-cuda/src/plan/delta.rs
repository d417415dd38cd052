//! The gated delta rule: a kernel over all chunks of 64 rows, then one along the chunks of each sequence
//! (`kernels/gated_delta.cuh`).

use dikast_core::graph::{Dim, Graph, Sizes, Step, Symbol, TensorId};
use dikast_core::{Error, Result};

use super::Builder;
use crate::args::{Address, arguments};
use crate::device::Target;
use crate::inputs::InputLayout;
use crate::launch::{Grid, Launch};
use crate::layout::{self, Stored};

/// Rows of a chunk.
const CHUNK: usize = 64;
/// Floats of a chunk and value head.
const FACTORS: usize = 2 * CHUNK + 4;
/// Bytes of 64 rows of 64 elements in `sm90_gated_delta_state.cu`.
const PANEL: usize = 64 * 128;
/// Floats of a row of the matrices that the first kernel inverts.
const FLOAT_PITCH: usize = CHUNK + 4;

arguments! {
    /// `gated_delta.cuh`
    GatedDelta {
        x: Address, gates: Address, decay: Address, decay_bias: Address, offsets: Address, sequences: Address,
        keys: Address, pairs: Address, factors: Address, out: Address, from: Address, to: Address,
        pitch: i32, key_heads: i32, value_heads: i32, stages: i32,
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
        if self.stored(gates) != Stored::F32 || self.stored(out) != stored {
            return Err(self.device.lacks("the gated delta rule on these formats"));
        }
        if key_heads == 0 || value_heads % key_heads != 0 {
            return Err(self.device.lacks(format!(
                "{value_heads} value heads for {key_heads} key heads (a multiple is needed)"
            )));
        }
        let first = chunks_entry(key_dim, stored).filter(|_| key_dim == value_dim).ok_or_else(|| {
            self.device
                .lacks(format!("delta heads {key_dim} and {value_dim} wide (both 32, 64 or 128 are needed)"))
        })?;

        let room = Room::of(self.graph, x, (key_heads, key_dim), value_heads, &self.bucket, stored);
        let sequences = self.bucket.sequences;
        let chip = Chip {
            processors: self.device.processors,
            shared: self.device.shared,
            hopper: self.device.target == Target::Hopper && !self.portable,
        };
        let walk = choose((key_dim, stored), value_heads * sequences, chip);
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
            from: self.kept_before(step),
            to: self.kept_after(step),
            pitch: self.cols(x) as i32,
            key_heads: key_heads as i32,
            value_heads: value_heads as i32,
            stages: walk.stages as i32,
        };
        let rows = 2 * planes(stored) * CHUNK * (2 * key_dim + 16);
        let shared = rows.max(2 * CHUNK * FLOAT_PITCH * 4);
        let chunks = Grid::new(value_heads, room.slots, 128).shared(shared);
        let blocks = value_heads * (key_dim / 16 / walk.warps);
        let state =
            Grid::new(blocks, sequences, 32 * walk.warps).shared(walk.stages * walk.stage + walk.align);
        Ok(vec![
            self.launch("gated_delta_chunks", first, chunks, &arguments)?,
            self.launch(walk.file, walk.entry, state, &arguments)?,
        ])
    }
}

/// The first kernel for heads of a width.
fn chunks_entry(width: usize, stored: Stored) -> Option<&'static str> {
    Some(match (width, stored) {
        (32, Stored::F32) => "gated_delta_chunks_32_f32",
        (64, Stored::F32) => "gated_delta_chunks_64_f32",
        (128, Stored::F32) => "gated_delta_chunks_128_f32",
        (32, Stored::BF16) => "gated_delta_chunks_32_bf16",
        (64, Stored::BF16) => "gated_delta_chunks_64_bf16",
        (128, Stored::BF16) => "gated_delta_chunks_128_bf16",
        _ => return None,
    })
}

/// The second kernel; every choice gives the same bits.
struct Walk {
    file: &'static str,
    entry: &'static str,
    warps: usize,
    /// Bytes of a chunk's operands.
    stage: usize,
    stages: usize,
    /// Bytes that a block needs to align its stages.
    align: usize,
}

/// What a device has.
#[derive(Clone, Copy)]
struct Chip {
    processors: usize,
    /// Bytes of shared memory that a block may have.
    shared: usize,
    /// Whether warpgroup products are there.
    hopper: bool,
}

/// The second kernel for `heads` heads of all sequences together.
fn choose((width, stored): (usize, Stored), heads: usize, chip: Chip) -> Walk {
    let Chip { processors, shared, hopper } = chip;
    // Few heads spread over more processors; many read less with all columns of a head in one block.
    let wide = 2 * heads > processors;
    if hopper && (width, stored) == (128, Stored::BF16) {
        let (entry, groups) =
            if wide { ("sm90_gated_delta_state_128_wide", 2) } else { ("sm90_gated_delta_state_128", 1) };
        let (stage, align) = ((6 + groups) * PANEL + 1024, 1024);
        let stages = ((shared - align) / stage).min(3);
        return Walk { file: "sm90_gated_delta_state", entry, warps: 4 * groups, stage, stages, align };
    }
    let ahead = |warps| 2 * stage_bytes(width, stored, warps) <= shared;
    let (entry, warps, most) = match (width, stored) {
        (32, Stored::F32) => ("gated_delta_state_32_f32", 2, 1),
        (64, Stored::F32) => ("gated_delta_state_64_f32", 4, 1),
        (_, Stored::F32) => ("gated_delta_state_128_f32", 4, 1),
        (32, _) => ("gated_delta_state_32_bf16", 2, 3),
        (64, _) => ("gated_delta_state_64_bf16", 4, 3),
        _ if wide && ahead(8) => ("gated_delta_state_128_bf16_wide", 8, 3),
        _ if ahead(4) => ("gated_delta_state_128_bf16", 4, 3),
        _ => ("gated_delta_state_128_bf16_single", 4, 1),
    };
    let stage = stage_bytes(width, stored, warps);
    let stages = (shared / stage).clamp(1, most);
    Walk { file: "gated_delta_state", entry, warps, stage, stages, align: 0 }
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
    fn operands_fit_the_chips() {
        let chip = |shared, hopper| Chip { processors: 132, shared, hopper };
        for (hopper, narrow, wide) in [
            (false, "gated_delta_state_128_bf16", "gated_delta_state_128_bf16_wide"),
            (true, "sm90_gated_delta_state_128", "sm90_gated_delta_state_128_wide"),
        ] {
            for (heads, entry) in [(48, narrow), (96, wide)] {
                let walk = choose((128, Stored::BF16), heads, chip(227 << 10, hopper));
                assert_eq!((walk.entry, walk.stages), (entry, 3));
                assert!(walk.stages * walk.stage + walk.align <= 227 << 10);
            }
        }
        for shared in [99 << 10, 163 << 10, 227 << 10] {
            for (width, stored) in
                [32, 64, 128].into_iter().flat_map(|w| [(w, Stored::F32), (w, Stored::BF16)])
            {
                let walk = choose((width, stored), 48, chip(shared, false));
                // The kernels that fetch ahead have room for it.
                assert!(walk.stages > 1 || stored == Stored::F32 || walk.entry.ends_with("single"));
                // float32 rows of the widest heads need a Hopper.
                let fits = walk.stages * walk.stage <= shared;
                assert!(fits || (width, stored) == (128, Stored::F32), "{} in {shared}", walk.entry);
            }
        }
    }
}
