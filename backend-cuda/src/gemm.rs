//! Which FP8 kernel, tile and cluster a product gets: plain arithmetic, tested without a GPU.
//!
//! Which kernel may depend on k ([`exact`]); everything else may also depend on the number of tokens, because no choice
//! changes the bits of a result: every kernel adds the k-blocks in order, whichever operand has the 64 rows.

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
    /// From the ring by the copy engine, float32, with a residual that came the same way.
    Ring32,
    /// The same, added to the residual, which lies where the results will.
    RingAdded,
    /// From the ring, binary16.
    Ring16,
    /// From the ring, bfloat16, gated.
    RingGated,
}

/// How results of the largest FP8 tiles leave on Hopper: the same results, whichever way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LargeTiles {
    /// What was measured to be best of the others: float32 as `Added`, 16-bit results as `Staged`.
    #[default]
    Mixed,
    /// As rows that other warps store.
    Staged,
    /// By the copy engine, from the ring of operands, to which residuals came the same way.
    Copied,
    /// As `Copied`, but added in memory where they go to where their residual is.
    Added,
}

impl Exit {
    /// Rows are copied by 16 bytes. `in_place`: results go to where their residual is.
    pub(crate) fn of(columns: usize, gated: bool, stored: Stored, in_place: bool, tiles: LargeTiles) -> Self {
        if !(columns * stored.bytes()).is_multiple_of(16) {
            return Self::Direct;
        }
        let all = matches!(tiles, LargeTiles::Copied | LargeTiles::Added);
        match (gated, stored) {
            (false, Stored::F32) => match tiles {
                LargeTiles::Staged => Self::Rows32,
                LargeTiles::Mixed | LargeTiles::Added if in_place => Self::RingAdded,
                _ => Self::Ring32,
            },
            (false, Stored::F16) if all => Self::Ring16,
            (false, Stored::F16) => Self::Rows16,
            (true, Stored::BF16) if all => Self::RingGated,
            (true, Stored::BF16) => Self::Gated16,
            _ => Self::Direct,
        }
    }

    /// The ways that results of this kind can leave, for measurements.
    fn others(self) -> &'static [Self] {
        match self {
            Self::Direct => &[],
            Self::Rows32 | Self::Ring32 | Self::RingAdded => &[Self::Rows32, Self::Ring32, Self::RingAdded],
            Self::Rows16 | Self::Ring16 => &[Self::Rows16, Self::Ring16],
            Self::Gated16 | Self::RingGated => &[Self::Gated16, Self::RingGated],
        }
    }

    /// Columns of a box of results, where they leave from the ring: 128 bytes.
    fn box_columns(self) -> Option<usize> {
        match self {
            Self::Ring32 | Self::RingAdded => Some(32),
            Self::Ring16 | Self::RingGated => Some(64),
            Self::Direct | Self::Rows32 | Self::Rows16 | Self::Gated16 => None,
        }
    }

    /// Shared memory of the staged rows: 128 tokens, each row with 16 bytes beside it.
    fn staged(self) -> usize {
        128 * match self {
            Self::Direct | Self::Ring32 | Self::RingAdded | Self::Ring16 | Self::RingGated => 0,
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
            Self::Ring32 => "sm90_fp8_gemm_2_128_ring_f32",
            Self::RingAdded => "sm90_fp8_gemm_2_128_ring_added",
            Self::Ring16 => "sm90_fp8_gemm_2_128_ring_f16",
            Self::RingGated => "sm90_fp8_gemm_2_128_ring_gated",
        }
    }
}

impl Choice {
    /// Columns of a box of results, where those leave from the ring, and whether they are added to what is there.
    pub(crate) fn boxes(&self) -> Option<(usize, bool)> {
        let exits = [Exit::Ring32, Exit::RingAdded, Exit::Ring16, Exit::RingGated];
        let exit = exits.into_iter().find(|exit| exit.entry() == self.entry)?;
        exit.box_columns().map(|columns| (columns, exit == Exit::RingAdded))
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

/// The choice for a product. With `few`, the kernel of few tokens is among what can be chosen.
pub(crate) fn choose(chip: Chip, shape: Shape, few: bool) -> Choice {
    if chip.target != Target::Hopper || exact(shape.k_blocks) {
        return portable(shape);
    }
    ranked(chip, shape)
        .filter(|(choice, _)| few || choice.kernel != FEW)
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map_or_else(|| portable(shape), |(c, _)| c)
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
/// Shared memory of barriers and scales where results leave from the ring; otherwise it is static.
const MEETING: usize = (2 * MOST_STAGES + 2) * 8 + 4 * 2 * 2 * 128;

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
        // Only where many read from one cache.
        if size > 1 && chip.processors < 16 {
            return None;
        }
        let clusters = row_tiles / down * token_tiles.div_ceil(across);
        let usable = chip.processors;
        let resident = if clusters * size > usable { self.resident } else { 1 };
        // Static shared memory and the driver's own kilobyte come off the limit.
        let room = chip.shared.checked_sub(4096)? / resident;
        let stage = (rows + self.tokens) * K_BLOCK;
        // The largest tile stores its results through shared memory.
        let exit = if self.groups == 2 && self.tokens == 128 { shape.exit } else { Exit::Direct };
        let staged = exit.staged();
        let ring = exit.box_columns().is_some();
        let stages = if ring {
            // Results have places in it too, after the k-blocks: not more of all than one tile needs, so that no warp is a whole
            // tile ahead of those that move its results.
            let places = if exit.box_columns() == Some(32) { 2 } else { 1 };
            (chip.shared.checked_sub(MEETING)? / stage).min(shape.k_blocks + places)
        } else {
            shape.k_blocks.min(room.checked_sub(1024 + 2560 + staged)? / stage)
        };
        let stages = stages.min(MOST_STAGES);
        if stages < 2.min(shape.k_blocks) {
            return None;
        }
        let slots = (usable * resident / size).max(1);
        let grid = Grid::new(clusters.min(slots) * size, 1, if self.groups == 1 { 160 } else { 384 })
            .shared(if ring { stages * stage + MEETING } else { 1024 + stages * stage + staged })
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

/// The kernel in which tokens are the 64-row side.
const FEW: &str = "sm90_fp8_few";

/// A compiled tile of that kernel: warpgroups of 64 tokens, weight rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FewTile {
    groups: usize,
    rows: usize,
    threads: usize,
    entry: &'static str,
}

/// Where 64 rows a tile leave a third of an H200's 132 multiprocessors idle, or need a second round for a few of them, these
/// make 128 tiles of the products of an mT5-XL block.
const FEW_TILES: [FewTile; 12] = [
    FewTile { groups: 1, rows: 16, threads: 160, entry: "sm90_fp8_few_1_16" },
    FewTile { groups: 1, rows: 32, threads: 160, entry: "sm90_fp8_few_1_32" },
    FewTile { groups: 1, rows: 48, threads: 160, entry: "sm90_fp8_few_1_48" },
    FewTile { groups: 1, rows: 64, threads: 160, entry: "sm90_fp8_few_1_64" },
    FewTile { groups: 1, rows: 80, threads: 160, entry: "sm90_fp8_few_1_80" },
    FewTile { groups: 1, rows: 96, threads: 160, entry: "sm90_fp8_few_1_96" },
    FewTile { groups: 1, rows: 160, threads: 160, entry: "sm90_fp8_few_1_160" },
    FewTile { groups: 2, rows: 48, threads: 384, entry: "sm90_fp8_few_2_48" },
    FewTile { groups: 2, rows: 80, threads: 384, entry: "sm90_fp8_few_2_80" },
    FewTile { groups: 2, rows: 80, threads: 288, entry: "sm90_fp8_few_2_80_slim" },
    FewTile { groups: 2, rows: 96, threads: 384, entry: "sm90_fp8_few_2_96" },
    FewTile { groups: 2, rows: 160, threads: 384, entry: "sm90_fp8_few_2_160" },
];

/// Stages that this kernel has barriers for.
const MOST_FEW_STAGES: usize = 24;

impl FewTile {
    /// One round of tiles or none: a block has one tile.
    fn choice(self, chip: Chip, shape: Shape) -> Option<(Choice, f64)> {
        let tokens = self.groups * 64;
        let row_tiles = shape.weight_rows / self.rows;
        let blocks = row_tiles * shape.tokens.div_ceil(tokens);
        let whole = shape.weight_rows.is_multiple_of(self.rows) && shape.exit != Exit::Direct;
        if !whole || blocks > chip.processors {
            return None;
        }
        let stage = (self.rows + tokens) * K_BLOCK;
        let room = chip.shared.checked_sub(4096 + 1024)?;
        let stages = shape.k_blocks.min(room / stage).min(MOST_FEW_STAGES);
        if stages < 2.min(shape.k_blocks) {
            return None;
        }
        // As for the other kernel; the end is shorter, because whole sectors are stored and the residual was asked for before.
        let multiplying = (self.rows * tokens * K_BLOCK) as f64 / 4096.0;
        let moving = 0.9 * (self.groups * 4 * (2048 + 32 * self.rows) + stage) as f64 / 128.0;
        let k_block = multiplying.max(moving).max(210.0);
        let cost = shape.k_blocks as f64 * k_block + 100.0 + 12.0 * self.rows as f64;
        let grid = Grid::new(blocks, 1, self.threads).shared(1024 + stages * stage);
        let choice = Choice { kernel: FEW, entry: self.entry, grid, row_tiles, cluster_tokens: 1, stages };
        Some((choice, cost))
    }
}

fn ranked(chip: Chip, shape: Shape) -> impl Iterator<Item = (Choice, f64)> {
    let few = FEW_TILES.iter().filter_map(move |tile| tile.choice(chip, shape));
    let clusters = move |tile: &'static Tile| {
        CLUSTERS.iter().filter_map(move |&cluster| tile.choice(chip, shape, cluster))
    };
    TILES.iter().flat_map(clusters).chain(few)
}

/// All tiles and clusters that a product can have on Hopper, those that the model of costs finds worst left out, for
/// measurements.
pub(crate) fn candidates(chip: Chip, shape: Shape) -> Vec<Choice> {
    let mut all: Vec<_> = ranked(chip, shape).collect();
    all.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    all.truncate(16);
    let others = shape.exit.others().iter().flat_map(|&exit| {
        let of_exit =
            ranked(chip, Shape { exit, ..shape }).filter(move |(choice, _)| choice.entry == exit.entry());
        of_exit.min_by(|(_, a), (_, b)| a.total_cmp(b))
    });
    all.into_iter().chain(others).map(|(choice, _)| choice).collect()
}

/// All tiles, clusters and exits that a product can have on Hopper.
pub(crate) fn every(chip: Chip, shape: Shape) -> Vec<Choice> {
    let mut all: Vec<Choice> = Vec::new();
    for exit in std::iter::once(Exit::Direct).chain(shape.exit.others().iter().copied()) {
        for (choice, _) in ranked(chip, Shape { exit, ..shape }) {
            if !all.contains(&choice) {
                all.push(choice);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Chip = Chip { target: Target::Hopper, processors: 132, shared: 232_448 };

    #[test]
    fn shallow_products_are_exact_whatever_the_batch() {
        for tokens in [1, 64, 300, 4096] {
            for k_blocks in [1, 3, 4, 5, 16] {
                let choice =
                    choose(H200, Shape { weight_rows: 640, k_blocks, tokens, exit: Exit::Rows32 }, true);
                assert_eq!(choice.kernel == "sm89_fp8_gemm", k_blocks <= 4);
            }
        }
    }

    #[test]
    fn one_wave_at_64_tokens() {
        // qkv, o, wi, wo of mT5-XL.
        for (weight_rows, k_blocks) in [(6144, 16), (2048, 16), (10240, 16), (2048, 40)] {
            let choice =
                choose(H200, Shape { weight_rows, k_blocks, tokens: 64, exit: Exit::RingAdded }, false);
            assert_eq!(choice.kernel, "sm90_fp8_gemm");
            assert!(choice.grid.blocks[0] >= 64, "{choice:?}");
            assert!(choice.stages >= k_blocks.min(7), "{choice:?}");
        }
    }

    /// qkv, o, wi, wo of mT5-XL: weight rows, k-blocks, how results leave.
    const BLOCK: [(usize, usize, Exit); 4] = [
        (6144, 16, Exit::Rows16),
        (2048, 16, Exit::Rows32),
        (10240, 16, Exit::Gated16),
        (2048, 40, Exit::Rows32),
    ];

    #[test]
    fn few_tokens_fill_the_chip_once() {
        for tokens in [64, 128, 256] {
            for (weight_rows, k_blocks, exit) in BLOCK {
                let shape = Shape { weight_rows, k_blocks, tokens, exit };
                let choice = choose(H200, shape, true);
                assert_eq!((choice.kernel, choice.grid.blocks), (FEW, [128, 1]), "{shape:?}");
                assert_ne!(choose(H200, shape, false).kernel, FEW);
                // Results that are no whole multiples of 16 bytes leave by the other kernel.
                assert_ne!(choose(H200, Shape { exit: Exit::Direct, ..shape }, true).kernel, FEW);
            }
        }
        for tokens in [512, 1024, 4096] {
            for (weight_rows, k_blocks, exit) in BLOCK {
                assert_ne!(choose(H200, Shape { weight_rows, k_blocks, tokens, exit }, true).kernel, FEW);
            }
        }
    }

    #[test]
    fn every_choice_covers_the_product_and_fits() {
        for target in [Target::Hopper, Target::Portable(89)] {
            for weight_rows in [128, 256, 384, 640, 1920, 6144, 10240] {
                for k_blocks in [1, 2, 3, 6, 16, 40] {
                    for tokens in [1, 63, 64, 65, 96, 128, 192, 256, 257, 1000, 4096] {
                        let chip = Chip { target, ..H200 };
                        let exits = [
                            Exit::Direct,
                            Exit::Rows32,
                            Exit::Rows16,
                            Exit::Gated16,
                            Exit::Ring32,
                            Exit::RingAdded,
                            Exit::Ring16,
                            Exit::RingGated,
                        ];
                        let mut choices = Vec::new();
                        for exit in exits {
                            let shape = Shape { weight_rows, k_blocks, tokens, exit };
                            choices.extend([false, true].map(|few| choose(chip, shape, few)));
                            if target == Target::Hopper {
                                choices.extend(candidates(chip, shape));
                            }
                        }
                        for choice in choices {
                            let grid = choice.grid;
                            // Static shared memory beside it, where there is some.
                            let beside = if choice.boxes().is_some() { 0 } else { 4096 };
                            assert!(
                                grid.shared + beside <= chip.shared,
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
                            if choice.kernel == FEW {
                                let tile =
                                    FEW_TILES.iter().find(|t| choice.entry == t.entry).expect("listed");
                                assert_eq!(grid.threads, tile.threads);
                                assert_eq!(choice.row_tiles * tile.rows, weight_rows);
                                let token_tiles = grid.blocks[0] / choice.row_tiles;
                                assert_eq!(token_tiles, tokens.div_ceil(64 * tile.groups));
                                assert!(grid.blocks[0] <= chip.processors && grid.cluster == 1);
                                assert!((1..=MOST_FEW_STAGES.min(k_blocks)).contains(&choice.stages));
                            }
                        }
                    }
                }
            }
        }
    }
}
