//! Which FP8 kernel, tile and cluster a product gets: plain arithmetic, tested without a GPU.
//!
//! Which kernel may depend on k ([`exact`]); everything else may also depend on the number of tokens, because no choice
//! changes the bits of a result: every kernel adds the k-blocks in order.

use crate::device::Target;
use crate::launch::Grid;
use crate::layout::{K_BLOCK, SHALLOW_BLOCKS, Stored, TILE_ROWS};

/// The kernel and grid of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) kernel: &'static str,
    pub(crate) entry: &'static str,
    pub(crate) grid: Grid,
    /// Row tiles of the weight, token tiles of a cluster, ring stages: Hopper's kernel only.
    pub(crate) row_tiles: usize,
    pub(crate) cluster_tokens: usize,
    pub(crate) stages: usize,
}

/// A product: rows of the weight as padded on the device, its k-blocks, the most tokens, and how results leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) weight_rows: usize,
    pub(crate) k_blocks: usize,
    pub(crate) tokens: usize,
    pub(crate) exit: Exit,
}

/// How the largest tile's results leave: as in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// From the registers.
    Direct,
    /// Staged rows of float32.
    Rows32,
    /// Staged rows of binary16.
    Rows16,
    /// Staged rows of bfloat16, gated.
    Gated16,
}

impl Exit {
    /// Rows are copied by 16 bytes.
    pub(crate) fn of(columns: usize, gated: bool, stored: Stored) -> Self {
        if !(columns * stored.bytes()).is_multiple_of(16) {
            return Self::Direct;
        }
        match (gated, stored) {
            (false, Stored::F32) => Self::Rows32,
            (false, Stored::F16) => Self::Rows16,
            (true, Stored::BF16) => Self::Gated16,
            _ => Self::Direct,
        }
    }

    /// Shared memory of the staged rows: 128 tokens, each row with 16 bytes beside it.
    fn staged(self) -> usize {
        128 * match self {
            Self::Direct => 0,
            Self::Rows32 => 128 * 4 + 16,
            Self::Rows16 => 128 * 2 + 16,
            Self::Gated16 => 64 * 2 + 16,
        }
    }

    fn entry(self) -> &'static str {
        match self {
            Self::Direct => "sm90_fp8_gemm_2_128",
            Self::Rows32 => "sm90_fp8_gemm_2_128_f32",
            Self::Rows16 => "sm90_fp8_gemm_2_128_f16",
            Self::Gated16 => "sm90_fp8_gemm_2_128_gated",
        }
    }
}

/// What of the device matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chip {
    pub(crate) target: Target,
    pub(crate) processors: usize,
    pub(crate) shared: usize,
}

/// Products so shallow that speed is no matter take the warp instructions on Hopper too: those are made of binary16 ones
/// and sum exactly to float32, where the warpgroup's E4M3 sums keep about 13 bits.
fn exact(k_blocks: usize) -> bool {
    k_blocks <= SHALLOW_BLOCKS
}

/// The choice for a product.
pub(crate) fn choose(chip: Chip, shape: Shape) -> Choice {
    if chip.target != Target::Hopper || exact(shape.k_blocks) {
        return portable(shape);
    }
    ranked(chip, shape).min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or_else(|| portable(shape), |(c, _)| c)
}

/// The warp-instruction kernel.
pub(crate) fn portable(shape: Shape) -> Choice {
    const TOKENS: usize = 64;
    const SHARED: usize = 4 * (TILE_ROWS + TOKENS) * K_BLOCK;
    let grid = Grid::new(shape.weight_rows / TILE_ROWS, shape.tokens.div_ceil(TOKENS), 128).shared(SHARED);
    Choice {
        kernel: "sm89_fp8_gemm",
        entry: "sm89_fp8_gemm",
        grid,
        row_tiles: 0,
        cluster_tokens: 0,
        stages: 0,
    }
}

/// A compiled tile of Hopper's kernel: warpgroups of 64 weight rows, tokens, blocks that a multiprocessor's registers hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    groups: usize,
    tokens: usize,
    resident: usize,
    entry: &'static str,
}

const TILES: [Tile; 8] = [
    Tile { groups: 2, tokens: 128, resident: 1, entry: "sm90_fp8_gemm_2_128" },
    Tile { groups: 2, tokens: 96, resident: 1, entry: "sm90_fp8_gemm_2_96" },
    Tile { groups: 2, tokens: 64, resident: 1, entry: "sm90_fp8_gemm_2_64" },
    Tile { groups: 1, tokens: 128, resident: 1, entry: "sm90_fp8_gemm_1_128" },
    Tile { groups: 1, tokens: 96, resident: 1, entry: "sm90_fp8_gemm_1_96" },
    Tile { groups: 1, tokens: 64, resident: 1, entry: "sm90_fp8_gemm_1_64" },
    Tile { groups: 1, tokens: 32, resident: 2, entry: "sm90_fp8_gemm_1_32" },
    Tile { groups: 1, tokens: 16, resident: 2, entry: "sm90_fp8_gemm_1_16" },
];

/// Row tiles × token tiles of a cluster. Clusters of four fit on too few multiprocessors: fewer than 128 of an H200's 132
/// can hold them at a time.
const CLUSTERS: [(usize, usize); 3] = [(1, 1), (2, 1), (1, 2)];

/// Stages that the kernel has barriers for.
const MOST_STAGES: usize = 16;

impl Tile {
    fn choice(self, chip: Chip, shape: Shape, (down, across): (usize, usize)) -> Option<(Choice, f64)> {
        let rows = self.groups * TILE_ROWS;
        let row_tiles = shape.weight_rows / rows;
        let token_tiles = shape.tokens.div_ceil(self.tokens);
        if !row_tiles.is_multiple_of(down) || across > token_tiles {
            return None;
        }
        // Parts of a tile are whole atoms of eight rows.
        if !self.tokens.is_multiple_of(8 * down) {
            return None;
        }
        let size = down * across;
        let clusters = row_tiles / down * token_tiles.div_ceil(across);
        let usable = chip.processors;
        let resident = if clusters * size > usable { self.resident } else { 1 };
        // Static shared memory and the driver's own kilobyte come off the limit.
        let room = chip.shared.checked_sub(4096)? / resident;
        let stage = (rows + self.tokens) * K_BLOCK;
        // The largest tile stores its results through shared memory.
        let exit = if self.groups == 2 && self.tokens == 128 { shape.exit } else { Exit::Direct };
        let staged = exit.staged();
        let stages = shape.k_blocks.min(room.checked_sub(1024 + 2560 + staged)? / stage).min(MOST_STAGES);
        if stages < 2.min(shape.k_blocks) {
            return None;
        }
        let slots = (usable * resident / size).max(1);
        let grid = Grid::new(clusters.min(slots) * size, 1, if self.groups == 1 { 160 } else { 384 })
            .shared(1024 + stages * stage + staged)
            .cluster(size);

        // Cycles, fitted to an H200: a k-block of a tile multiplies, or reads and writes shared memory, or waits; tiles of
        // a multiprocessor follow one another, and where they do, what the second-level cache must give counts; clusters
        // cost a little at their ends. In a forward, with weights in memory, many small blocks win over few large ones
        // where products back to back say otherwise.
        let multiplying = (rows * self.tokens * K_BLOCK) as f64 / 4096.0;
        let moving = 0.9 * (self.groups * 4 * (2048 + 32 * self.tokens) + stage) as f64 / 128.0;
        let waves = clusters.div_ceil((usable / size).max(1));
        let crossing = (rows * K_BLOCK / across + self.tokens * K_BLOCK / down) as f64 / 36.0;
        let k_block = multiplying.max(moving).max(210.0).max(if waves > 2 { crossing } else { 0.0 });
        let end = 35.0 * self.tokens as f64;
        // What is staged leaves while the next tile is multiplied.
        let between = if exit == Exit::Direct { end } else { 12.0 * self.tokens as f64 };
        let tiles = waves as f64 * (shape.k_blocks as f64 * k_block + 100.0);
        let cost = tiles + (waves - 1) as f64 * between + end + if size > 1 { 600.0 } else { 0.0 };
        let choice = Choice {
            kernel: "sm90_fp8_gemm",
            entry: if exit == Exit::Direct { self.entry } else { exit.entry() },
            grid,
            row_tiles,
            cluster_tokens: across,
            stages,
        };
        Some((choice, cost))
    }
}

fn ranked(chip: Chip, shape: Shape) -> impl Iterator<Item = (Choice, f64)> {
    TILES
        .iter()
        .flat_map(move |tile| CLUSTERS.iter().filter_map(move |&cluster| tile.choice(chip, shape, cluster)))
}

/// All tiles and clusters that a product can have on Hopper, those that the model of costs finds worst left out, for
/// measurements.
pub(crate) fn candidates(chip: Chip, shape: Shape) -> Vec<Choice> {
    let mut all: Vec<_> = ranked(chip, shape).collect();
    all.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    all.truncate(12);
    all.into_iter().map(|(choice, _)| choice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Chip = Chip { target: Target::Hopper, processors: 132, shared: 232_448 };

    #[test]
    fn shallow_products_are_exact_whatever_the_batch() {
        for tokens in [1, 64, 300, 4096] {
            for k_blocks in [1, 3, 4, 5, 16] {
                let choice = choose(H200, Shape { weight_rows: 640, k_blocks, tokens, exit: Exit::Rows32 });
                assert_eq!(choice.kernel == "sm89_fp8_gemm", k_blocks <= 4);
            }
        }
    }

    #[test]
    fn one_wave_at_64_tokens() {
        // qkv, o, wi, wo of mT5-XL.
        for (weight_rows, k_blocks) in [(6144, 16), (2048, 16), (10240, 16), (2048, 40)] {
            let choice = choose(H200, Shape { weight_rows, k_blocks, tokens: 64, exit: Exit::Rows32 });
            assert_eq!(choice.kernel, "sm90_fp8_gemm");
            assert!(choice.grid.blocks[0] >= 64, "{choice:?}");
            assert!(choice.stages >= k_blocks.min(7), "{choice:?}");
        }
    }

    #[test]
    fn every_choice_covers_the_product_and_fits() {
        for target in [Target::Hopper, Target::Portable(89)] {
            for weight_rows in [128, 256, 384, 640, 1920, 6144, 10240] {
                for k_blocks in [1, 2, 3, 6, 16, 40] {
                    for tokens in [1, 63, 64, 65, 96, 128, 192, 256, 257, 1000, 4096] {
                        let chip = Chip { target, ..H200 };
                        let exits = [Exit::Direct, Exit::Rows32, Exit::Rows16, Exit::Gated16];
                        let mut choices = Vec::new();
                        for exit in exits {
                            let shape = Shape { weight_rows, k_blocks, tokens, exit };
                            choices.push(choose(chip, shape));
                            if target == Target::Hopper {
                                choices.extend(candidates(chip, shape));
                            }
                        }
                        for choice in choices {
                            let grid = choice.grid;
                            assert!(
                                grid.shared + 4096 <= chip.shared,
                                "{weight_rows} {k_blocks} {tokens} {choice:?}"
                            );
                            assert!(grid.threads <= 384 && grid.blocks[0] > 0 && grid.blocks[1] > 0);
                            assert_eq!(grid.blocks[0] % grid.cluster, 0);
                            if choice.kernel == "sm90_fp8_gemm" {
                                let tile =
                                    TILES.iter().find(|t| choice.entry.starts_with(t.entry)).expect("listed");
                                assert_eq!(choice.row_tiles * tile.groups * TILE_ROWS, weight_rows);
                                assert_eq!(grid.cluster % choice.cluster_tokens, 0);
                                assert_eq!(choice.row_tiles % (grid.cluster / choice.cluster_tokens), 0);
                                assert!((1..=MOST_STAGES).contains(&choice.stages));
                            }
                        }
                    }
                }
            }
        }
    }
}
