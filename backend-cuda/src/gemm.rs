//! Which FP8 kernel, tile and split a product gets: plain arithmetic, tested without a GPU.
//!
//! The parts of k depend on k alone ([`splits`]); everything else here may depend on the number of tokens, because no
//! choice changes the bits of a result.

use crate::device::Target;
use crate::launch::Grid;
use crate::layout::{K_BLOCK, TILE_ROWS, TOKEN_TILE};

/// The kernel and grid of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) kernel: &'static str,
    pub(crate) entry: &'static str,
    pub(crate) grid: Grid,
    /// Ring stages of the split kernel; unused by the others.
    pub(crate) stages: usize,
}

/// A product: rows of the weight as padded on the device, its k-blocks, and the most tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) weight_rows: usize,
    pub(crate) k_blocks: usize,
    pub(crate) tokens: usize,
}

/// Parts of k that are summed apart: at least four k-blocks each, a cluster's worth at most.
pub(crate) fn splits(k_blocks: usize) -> usize {
    [8, 4, 2].into_iter().find(|s| k_blocks / s >= 4).unwrap_or(1)
}

/// What of the device matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chip {
    pub(crate) target: Target,
    pub(crate) processors: usize,
    pub(crate) shared: usize,
}

/// Tokens from which the persistent kernel is used.
const MANY_TOKENS: usize = 257;

/// The choice for a product.
pub(crate) fn choose(chip: Chip, shape: Shape) -> Choice {
    match chip.target {
        Target::Portable(_) => portable(shape),
        Target::Hopper if shape.tokens >= MANY_TOKENS => persistent(chip, shape),
        Target::Hopper => split(chip, shape),
    }
}

/// The warp-instruction kernel.
pub(crate) fn portable(shape: Shape) -> Choice {
    const TOKENS: usize = 64;
    const SHARED: usize = 4 * (TILE_ROWS + TOKENS) * K_BLOCK;
    let grid = Grid::new(shape.weight_rows / TILE_ROWS, shape.tokens.div_ceil(TOKENS), 128).shared(SHARED);
    Choice { kernel: "sm89_fp8_gemm", entry: "sm89_fp8_gemm", grid, stages: 0 }
}

/// Hopper's kernel for many tokens.
pub(crate) fn persistent(chip: Chip, shape: Shape) -> Choice {
    const STAGE: usize = (128 + TOKEN_TILE) * K_BLOCK;
    const SHARED: usize = 1024 + 5 * STAGE + 2 * 64 * 68 * 4;
    let pairs = shape.tokens.div_ceil(TOKEN_TILE).div_ceil(2) * (shape.weight_rows / 128);
    let clusters = (chip.processors / 2).min(pairs).max(1);
    let grid = Grid::new(2 * clusters, 1, 384).shared(SHARED);
    Choice { kernel: "sm90_fp8_gemm", entry: "sm90_fp8_gemm", grid, stages: 5 }
}

/// A compiled tile of the split kernel: warpgroups of 64 weight rows, tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SplitTile {
    groups: usize,
    tokens: usize,
    entry: &'static str,
}

const SPLIT_TILES: [SplitTile; 8] = [
    SplitTile { groups: 5, tokens: 64, entry: "sm90_fp8_split_5_64" },
    SplitTile { groups: 3, tokens: 64, entry: "sm90_fp8_split_3_64" },
    SplitTile { groups: 2, tokens: 64, entry: "sm90_fp8_split_2_64" },
    SplitTile { groups: 1, tokens: 64, entry: "sm90_fp8_split_1_64" },
    SplitTile { groups: 2, tokens: 96, entry: "sm90_fp8_split_2_96" },
    SplitTile { groups: 1, tokens: 96, entry: "sm90_fp8_split_1_96" },
    SplitTile { groups: 2, tokens: 128, entry: "sm90_fp8_split_2_128" },
    SplitTile { groups: 1, tokens: 128, entry: "sm90_fp8_split_1_128" },
];

/// Stages that the split kernel has barriers for.
const MOST_STAGES: usize = 12;

impl SplitTile {
    fn choice(self, chip: Chip, shape: Shape) -> Option<(Choice, f64)> {
        let rows = self.groups * TILE_ROWS;
        if !shape.weight_rows.is_multiple_of(rows) {
            return None;
        }
        let splits = splits(shape.k_blocks);
        let stage = (rows + self.tokens) * K_BLOCK;
        let part = shape.k_blocks.div_ceil(splits);
        // Static shared memory and the driver's own kilobyte come off the limit.
        let room = chip.shared.checked_sub(2048)?;
        let stages = part.min(room / stage).min(MOST_STAGES);
        if stages == 0 {
            return None;
        }
        let meeting_place = self.tokens * (rows + 4) * 4;
        let shared = 1024 + (stages * stage).max(meeting_place);
        if shared > room {
            return None;
        }
        let tiles = shape.weight_rows / rows;
        let token_tiles = shape.tokens.div_ceil(self.tokens);
        let grid =
            Grid::new(tiles * splits, token_tiles, self.groups * 128 + 32).shared(shared).cluster(splits);
        let blocks = tiles * splits * token_tiles;

        // Cycles, roughly: a wave's latency, and per multiprocessor the larger of copying and multiplying. Clusters
        // leave a few multiprocessors over.
        let per_processor = (room / shared).clamp(1, 2048 / grid.threads);
        let usable = if splits > 1 { chip.processors - chip.processors % 16 } else { chip.processors };
        let waves = blocks.div_ceil(usable.max(1) * per_processor);
        let each = blocks.div_ceil(usable.max(1));
        let copying = (part * stage) as f64 / 40.0;
        let multiplying = (part * rows * self.tokens * K_BLOCK) as f64 / 3000.0;
        let cost = 2500.0 * waves as f64 + each as f64 * copying.max(multiplying);
        Some((Choice { kernel: "sm90_fp8_split", entry: self.entry, grid, stages }, cost))
    }
}

/// Hopper's kernel for few tokens.
pub(crate) fn split(chip: Chip, shape: Shape) -> Choice {
    SPLIT_TILES
        .iter()
        .filter_map(|tile| tile.choice(chip, shape))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map_or_else(|| persistent(chip, shape), |(choice, _)| choice)
}

/// All tiles of the split kernel that a product can have, for measurements.
pub(crate) fn split_candidates(chip: Chip, shape: Shape) -> Vec<Choice> {
    SPLIT_TILES.iter().filter_map(|tile| tile.choice(chip, shape)).map(|(choice, _)| choice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Chip = Chip { target: Target::Hopper, processors: 132, shared: 232_448 };

    #[test]
    fn parts_depend_on_k_alone() {
        let parts: Vec<usize> = [1, 3, 6, 8, 16, 24, 40, 136].map(splits).to_vec();
        assert_eq!(parts, [1, 1, 1, 2, 4, 4, 8, 8]);
    }

    #[test]
    fn one_wave_at_64_tokens_with_all_weights_in_shared_memory() {
        // qkv, o, wi, wo of mT5-XL.
        for (rows, k_blocks) in [(6144, 16), (2048, 16), (10240, 16), (2048, 40)] {
            let shape = Shape { weight_rows: rows, k_blocks, tokens: 64 };
            let choice = choose(H200, shape);
            assert_eq!(choice.kernel, "sm90_fp8_split");
            assert_eq!(choice.stages, k_blocks / splits(k_blocks), "{choice:?}");
            let per_processor = 232_448 / (choice.grid.shared + 1024);
            assert!(choice.grid.blocks[0] * choice.grid.blocks[1] <= 132 * per_processor, "{choice:?}");
        }
    }

    #[test]
    fn every_choice_covers_the_product_and_fits() {
        for target in [Target::Hopper, Target::Portable(89)] {
            for weight_rows in [128, 256, 384, 640, 1920, 6144, 10240] {
                for k_blocks in [1, 2, 3, 6, 16, 40] {
                    for tokens in [1, 63, 64, 65, 96, 128, 192, 256, 257, 1000, 4096] {
                        let chip = Chip { target, ..H200 };
                        let shape = Shape { weight_rows, k_blocks, tokens };
                        let choice = choose(chip, shape);
                        let grid = choice.grid;
                        assert!(grid.shared + 1024 <= chip.shared, "{shape:?} {choice:?}");
                        assert!(grid.threads <= 1024 && grid.blocks[0] > 0 && grid.blocks[1] > 0);
                        assert_eq!(grid.blocks[0] % grid.cluster, 0);
                        if choice.kernel == "sm90_fp8_split" {
                            let tile = SPLIT_TILES.iter().find(|t| t.entry == choice.entry).expect("listed");
                            assert_eq!(grid.blocks[0] / grid.cluster * tile.groups * TILE_ROWS, weight_rows);
                            assert!(grid.blocks[1] * tile.tokens >= tokens);
                            assert_eq!(grid.cluster, splits(k_blocks));
                            assert_eq!(tile.tokens % grid.cluster, 0);
                        }
                    }
                }
            }
        }
    }
}
