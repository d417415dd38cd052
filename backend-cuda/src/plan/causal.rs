//! Causal attention.

use dikast_core::graph::Step;
use dikast_core::{Error, Result};

use super::Builder;
use crate::args::{self, Address};
use crate::device::Target;
use crate::launch::{Grid, Launch};
use crate::layout::Stored;

args::arguments! {
    /// `causal_attention.cu`, `causal_attention_f32.cu`, `sm90_causal_attention.cu`
    CausalAttention {
        q: Address, k: Address, v: Address, out: Address, tiles: Address, tile_count: Address,
        q_pitch: i32, k_pitch: i32, v_pitch: i32, out_pitch: i32, head_dim: i32, group: i32, scale: f32, pad: i32,
    }
}

/// Queries of a tile, and keys of a step.
const TILE: usize = 64;

/// An instance of the kernel for bfloat16 rows.
struct Instance {
    entry: &'static str,
    /// Widest head.
    width: usize,
    /// Query heads of a block.
    pack: usize,
    /// Tiles of keys and values on chip.
    steps: usize,
}

impl Instance {
    const ALL: [Self; 7] = [
        Self { entry: "causal_attention_64_pair", width: 64, pack: 2, steps: 2 },
        Self { entry: "causal_attention_64", width: 64, pack: 1, steps: 2 },
        Self { entry: "causal_attention_128_pair", width: 128, pack: 2, steps: 2 },
        Self { entry: "causal_attention_128", width: 128, pack: 1, steps: 2 },
        Self { entry: "causal_attention_256_pair", width: 256, pack: 2, steps: 2 },
        Self { entry: "causal_attention_256", width: 256, pack: 1, steps: 2 },
        Self { entry: "causal_attention_256_small", width: 256, pack: 1, steps: 1 },
    ];

    /// Bytes of shared memory.
    fn shared(&self) -> usize {
        (self.pack + 2 * self.steps) * TILE * self.width * 2
    }

    /// The instance for tiles of `head_dim` wide heads: two heads at a time where that leaves work for every
    /// multiprocessor. A row's bits are the same in all of them.
    fn of(
        head_dim: usize,
        group: usize,
        blocks: usize,
        processors: usize,
        shared: usize,
    ) -> Option<&'static Self> {
        let width = Self::ALL.iter().map(|i| i.width).find(|&width| width >= head_dim)?;
        let pair = group.is_multiple_of(2) && blocks / 2 >= processors;
        Self::ALL.iter().filter(|i| i.width == width && (pair || i.pack == 1)).find(|i| i.shared() <= shared)
    }
}

impl Builder<'_> {
    pub(super) fn causal_attention(&self, step: &Step) -> Result<Launch> {
        let Step::CausalAttention { q, k, v, offsets, heads, kv_heads, head_dim, scale, out } = *step else {
            return Err(Error::Internal("not a causal attention step".to_owned()));
        };
        let list = self
            .inputs
            .list(offsets, offsets, None)
            .ok_or_else(|| Error::Internal("causal attention without a tile list".to_owned()))?;
        let stored = self.stored(out);
        let operands = [q, k, v];
        if operands.iter().any(|c| self.stored(c.tensor) != stored) {
            return Err(self.device.lacks("causal attention between rows of different formats"));
        }
        let multiple = match stored {
            Stored::F32 => 4,
            Stored::BF16 => 8,
            Stored::F16 | Stored::Split => {
                return Err(self
                    .device
                    .lacks("causal attention over rows that are neither float32 nor bfloat16"));
            }
        };
        let apart = [head_dim, self.cols(out)]
            .into_iter()
            .chain(operands.iter().flat_map(|c| [c.start, self.cols(c.tensor)]));
        if apart.into_iter().any(|n| n % multiple != 0) {
            return Err(self
                .device
                .lacks(format!("causal attention with widths that are no multiple of {multiple}")));
        }
        let [keys, values] = self.keys_and_values(step, [k, v])?;
        let arguments = CausalAttention {
            q: self.columns(q)?,
            k: keys.0,
            v: values.0,
            out: self.tensor(out)?,
            tiles: self.block + list.tiles as u64,
            tile_count: self.block + list.count as u64,
            q_pitch: self.cols(q.tensor) as i32,
            k_pitch: keys.1,
            v_pitch: values.1,
            out_pitch: self.cols(out) as i32,
            head_dim: head_dim as i32,
            group: (heads / kv_heads) as i32,
            scale,
            pad: 0,
        };
        let too_wide =
            || self.device.lacks(format!("causal attention with heads {head_dim} wide (256 at most)"));
        if stored == Stored::F32 {
            let (width, entry) = [
                (64, "causal_attention_f32_64"),
                (128, "causal_attention_f32_128"),
                (256, "causal_attention_f32_256"),
            ]
            .into_iter()
            .find(|(width, _)| *width >= head_dim)
            .ok_or_else(too_wide)?;
            let threads = if width > 128 { 256 } else { 128 };
            let grid = Grid::new(heads, list.capacity, threads).shared(6 * TILE * width * 2);
            return self.launch("causal_attention_f32", entry, grid, &arguments);
        }
        let blocks = heads * list.capacity;
        let instance =
            Instance::of(head_dim, heads / kv_heads, blocks, self.device.processors, self.device.shared)
                .ok_or_else(too_wide)?;
        let grid = Grid::new(heads / instance.pack, list.capacity, 128 * instance.pack);
        if self.device.target == Target::Hopper && !self.portable && instance.width == 256 {
            let entry = match instance.pack {
                1 => "sm90_causal_attention_256",
                _ => "sm90_causal_attention_256_pair",
            };
            // Queries, two steps of keys and values, and 1024 bytes to align.
            let shared = (instance.pack + 4) * TILE * instance.width * 2 + 1024;
            return self.launch("sm90_causal_attention", entry, grid.shared(shared), &arguments);
        }
        self.launch("causal_attention", instance.entry, grid.shared(instance.shared()), &arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(head_dim: usize, group: usize, blocks: usize, shared: usize) -> Option<&'static str> {
        Instance::of(head_dim, group, blocks, 132, shared).map(|i| i.entry)
    }

    #[test]
    fn pairs_of_heads_where_there_is_work_enough() {
        let (hopper, ada) = (227 << 10, 99 << 10);
        assert_eq!(entry(256, 6, 24 * 24, hopper), Some("causal_attention_256_pair"));
        assert_eq!(entry(256, 6, 24 * 5, hopper), Some("causal_attention_256"));
        assert_eq!(entry(256, 3, 24 * 24, hopper), Some("causal_attention_256"));
        assert_eq!(entry(256, 6, 24 * 24, ada), Some("causal_attention_256_small"));
        assert_eq!(entry(128, 2, 1000, ada), Some("causal_attention_128_pair"));
        assert_eq!(entry(72, 1, 1000, hopper), Some("causal_attention_128"));
        assert_eq!(entry(64, 4, 8, hopper), Some("causal_attention_64"));
        assert_eq!(entry(264, 1, 8, hopper), None);
    }
}
