//! Which kernel and tile a float32 product gets: plain arithmetic, tested without a GPU.
//!
//! Which kernel depends on the weight's format alone; no tile changes the bits of a result, because the parts of k are the
//! same for all and are added in the same order.

use crate::device::Target;
use crate::launch::Grid;
use crate::layout::{K_BLOCK, TILE_ROWS};

/// The kernel and grid of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) kernel: &'static str,
    pub(crate) entry: &'static str,
    pub(crate) grid: Grid,
}

/// A product: rows of the weight as padded on the device, bfloat16 planes of it (1 or 2), and the most tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) planes: usize,
    pub(crate) tokens: usize,
}

/// The choice for a product; `portable` asks for the kernel for any chip even on Hopper.
pub(crate) fn choose(target: Target, processors: usize, portable: bool, shape: Shape) -> Choice {
    if target == Target::Hopper && !portable && shape.planes == 1 {
        warpgroups(processors, shape)
    } else {
        warps(target, processors, shape)
    }
}

/// The kernel with warp instructions: k in as many parts as a block has room for.
fn warps(target: Target, processors: usize, Shape { rows, planes, tokens }: Shape) -> Choice {
    // As in the kernel. 12.x has less shared memory than 9.0, but its kernels come as PTX for 8.9, with two parts.
    let groups = if target == Target::Hopper { 4 } else { 2 };
    // Blocks with the usual tile; narrow tiles where they still fill the chip but once, wide ones where it overflows.
    let usual = rows / TILE_ROWS * tokens.div_ceil(32);
    let (few, many) = (2 * usual <= processors, usual > processors);
    // Stages, weight rows and tokens of a tile, as in the kernel.
    let (entry, stages, tile, tile_tokens) = match (planes, few, many) {
        (1, true, _) => ("linear_1_32_32", 4, 32, 32),
        (1, _, true) => ("linear_1_64_64", 2, 64, 64),
        (1, ..) => ("linear_1_64_32", 3, 64, 32),
        (_, true, _) => ("linear_2_32_32", 3, 32, 32),
        (_, false, _) => ("linear_2_64_32", 2, 64, 32),
    };
    let shared = groups * stages * (planes * tile * K_BLOCK + tile_tokens * 256);
    let grid = Grid::new(rows / tile, tokens.div_ceil(tile_tokens), groups * 128).shared(shared);
    Choice { kernel: "linear", entry, grid }
}

/// Parts of k of Hopper's kernel: blocks of a cluster where k is split.
const PARTS: usize = 8;
/// Stages of its rings of weights and activations.
const STAGES: usize = 4;
/// Bytes of the activations of a warp's 16 tokens in a k-block.
const X_BYTES: usize = 16 * 64 * 4;

/// Hopper's kernel.
fn warpgroups(processors: usize, Shape { rows, tokens, .. }: Shape) -> Choice {
    let tile = |entry, groups: usize, tile: usize, split: bool| {
        let cluster = if split { PARTS } else { 1 };
        let threads = if groups == 1 { 160 } else { 384 };
        // The parts of a split product meet where the ring of weights was, each row with 32 bytes beside it; long sums have a
        // ring of activations too.
        let weights = STAGES * tile * K_BLOCK;
        let shared = 1024
            + if split {
                weights.max(groups * 64 * (tile + 8) * 4)
            } else {
                weights + STAGES * groups * 4 * X_BYTES
            };
        let grid = Grid::new(rows / tile * cluster, tokens.div_ceil(groups * 64), threads)
            .shared(shared)
            .cluster(cluster);
        Choice { kernel: "sm90_linear", entry, grid }
    };
    let blocks = |tile: usize| rows / tile * tokens.div_ceil(tile);
    if blocks(128) * 4 >= processors * 3 {
        tile("sm90_linear_whole_2_128", 2, 128, false)
    } else if tokens > 64 && blocks(64) * 5 >= processors * 2 {
        // Half of the multiprocessors walk all of k as fast as clusters that come in waves, and keep fewer busy.
        tile("sm90_linear_whole_1_64", 1, 64, false)
    } else if rows / 128 * PARTS * 4 >= processors * 3
        || rows / TILE_ROWS * PARTS * tokens.div_ceil(64) > 2 * processors
    {
        // Small tiles would come in waves, and read the activations twice as often.
        tile("sm90_linear_split_1_128", 1, 128, true)
    } else {
        tile("sm90_linear_split_1_64", 1, 64, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weight rows and tokens of a tile, by entry point.
    const TILES: [(&str, usize, usize); 9] = [
        ("sm90_linear_whole_1_64", 64, 64),
        ("sm90_linear_whole_2_128", 128, 128),
        ("sm90_linear_split_1_128", 128, 64),
        ("sm90_linear_split_1_64", 64, 64),
        ("linear_1_32_32", 32, 32),
        ("linear_1_64_64", 64, 64),
        ("linear_1_64_32", 64, 32),
        ("linear_2_32_32", 32, 32),
        ("linear_2_64_32", 64, 32),
    ];

    #[test]
    fn every_choice_covers_the_product_and_fits() {
        for target in [Target::Hopper, Target::Portable(89)] {
            let room = if target == Target::Hopper { 232_448 } else { 101_376 };
            for rows in [128, 256, 640, 1024, 2048, 6144] {
                for tokens in [1, 8, 64, 65, 256, 1024, 4096] {
                    for (planes, portable) in [(1, false), (1, true), (2, false)] {
                        let shape = Shape { rows, planes, tokens };
                        let Choice { entry, grid, .. } = choose(target, 132, portable, shape);
                        let (_, tile, tile_tokens) =
                            TILES.iter().find(|(e, ..)| *e == entry).expect("a known tile");
                        assert_eq!(grid.blocks[0], rows / tile * grid.cluster, "{shape:?}");
                        assert!(grid.blocks[1] * tile_tokens >= tokens, "{shape:?}");
                        assert!(grid.shared <= room, "{shape:?}");
                        assert_eq!(
                            entry.starts_with("sm90"),
                            target == Target::Hopper && !portable && planes == 1
                        );
                        assert_eq!(grid.cluster == PARTS, entry.contains("split"));
                    }
                }
            }
        }
    }

    #[test]
    fn the_head_of_mt5_xl_fills_the_chip() {
        let entry = |tokens| choose(Target::Hopper, 132, false, Shape { rows: 2048, planes: 1, tokens });
        assert_eq!(entry(4096).entry, "sm90_linear_whole_2_128");
        assert_eq!(entry(256).entry, "sm90_linear_whole_1_64");
        assert_eq!(entry(64).grid.blocks, [128, 1]);
    }
}
