//! Which tile a launch of products over split rows gets: plain arithmetic, tested without a GPU. No tile changes a result's bits.

use crate::launch::Grid;
use crate::layout::K_BLOCK;

/// Weight rows of a tile, and floats of a staged row.
const ROWS: usize = 128;
const PITCH: usize = ROWS + 4;
/// Parts of k.
const PARTS: usize = 4;
/// Stages that the kernel has barriers for.
const MOST_STAGES: usize = 16;
/// Shared memory of a block where one, and where two, fit a multiprocessor, less what the driver and the barriers take.
const ROOM: [usize; 2] = [226 * 1024, 112 * 1024];

/// A compiled tile: tokens, blocks of a cluster that share k (0: two share activations, and take tiles in turn), blocks that
/// registers let on a multiprocessor.
struct Tile {
    entry: &'static str,
    tokens: usize,
    cluster: usize,
    resident: usize,
}

const FEW: Tile = Tile { entry: "sm90_split_linear_16", tokens: 16, cluster: 4, resident: 2 };
const SOME: Tile = Tile { entry: "sm90_split_linear_64", tokens: 64, cluster: 4, resident: 2 };
const MORE: Tile = Tile { entry: "sm90_split_linear_128", tokens: 128, cluster: 2, resident: 1 };
const MANY: Tile = Tile { entry: "sm90_split_linear_together", tokens: 128, cluster: 0, resident: 1 };

/// The tile, grid and ring of a launch, and the first block of each product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) entry: &'static str,
    pub(crate) grid: Grid,
    pub(crate) stages: usize,
    pub(crate) first: Vec<usize>,
}

/// The choice for products of so many weight rows (as padded on the device, multiples of 128), over `k_blocks` and `tokens` at
/// most.
pub(crate) fn choose(processors: usize, weight_rows: &[usize], k_blocks: usize, tokens: usize) -> Choice {
    let pairs = weight_rows.iter().all(|rows| rows.is_multiple_of(2 * ROWS));
    let tile = match tokens {
        0..=16 => FEW,
        17..=128 => SOME,
        // A block that walks all of k takes its time: it pays where such blocks fill the chip.
        129..=512 => MORE,
        _ if pairs => MANY,
        _ => MORE,
    };
    let in_turn = tile.cluster == 0;
    let token_tiles = tokens.div_ceil(tile.tokens);
    let mut first = Vec::with_capacity(weight_rows.len());
    let mut blocks = 0;
    for rows in weight_rows {
        first.push(blocks);
        // A cluster for every pair of tiles. Fewer that take them in turn computed right, but a forward that had them failed on a
        // card when it was repeated, for a reason not found yet.
        blocks += rows / ROWS * if in_turn { token_tiles } else { tile.cluster };
    }
    let y = if in_turn { 1 } else { token_tiles };
    // Long rings where blocks need not share multiprocessors: clusters find room only in some places.
    let shared_by = if tile.resident > 1 && 4 * blocks * y > 3 * processors { 1 } else { 0 };
    let stage = ROWS * K_BLOCK + 2 * tile.tokens * K_BLOCK;
    // Rows of results: beside the ring of blocks that go on with another tile, else in its place.
    let parts = if in_turn { 1 } else { PARTS / tile.cluster };
    let meeting = parts * tile.tokens * PITCH * 4;
    let (beside, instead) = if in_turn { (meeting, 0) } else { (0, meeting) };
    let walked = k_blocks.div_ceil(tile.cluster.max(1)).max(2);
    let stages = ((ROOM[shared_by] - 1024 - beside) / stage).min(MOST_STAGES).min(walked);
    let shared = 1024 + (stages * stage).max(instead) + beside;
    let cluster = if in_turn { 2 } else { tile.cluster };
    Choice {
        entry: tile.entry,
        grid: Grid::new(blocks, y, 288).shared(shared).cluster(cluster),
        stages,
        first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_covers_its_products_and_fits() {
        for rows in [&[128][..], &[2048, 2048, 2048], &[256, 384], &[1024]] {
            for tokens in [1, 8, 16, 17, 64, 128, 129, 256, 512, 513, 768, 4096] {
                let Choice { entry, grid, stages, first } = choose(132, rows, 32, tokens);
                let tile = [FEW, SOME, MORE, MANY].into_iter().find(|t| t.entry == entry).expect("listed");
                assert_eq!(grid.blocks[0] % grid.cluster, 0);
                assert!(first.iter().all(|f| f % grid.cluster == 0), "{rows:?} {tokens}");
                assert_eq!(first[0], 0);
                if tile.cluster > 0 {
                    assert!(grid.blocks[1] * tile.tokens >= tokens);
                    let blocks: usize = rows.iter().map(|r| r / ROWS * tile.cluster).sum();
                    assert_eq!(grid.blocks[0], blocks);
                }
                let blocks = grid.blocks[0];
                assert!((2..=MOST_STAGES).contains(&stages));
                assert!(grid.shared <= 232_448, "{}", grid.shared);
                if tile.resident == 1 || 4 * blocks * grid.blocks[1] <= 3 * 132 {
                    assert!(stages >= 3);
                } else {
                    assert!(2 * (grid.shared + 2048) <= 233_472, "{}", grid.shared);
                }
            }
        }
    }

    #[test]
    fn every_tile_is_compiled() {
        let source = include_str!("../../kernels/sm90_split_linear.cu");
        for tile in [FEW, SOME, MORE, MANY] {
            let name = tile.entry.rsplit('_').next().unwrap_or_default();
            let line = format!("INSTANCE({name}, {}, {}, {})", tile.tokens, tile.cluster, tile.resident);
            assert!(source.contains(&line), "{line}");
        }
        assert!(source.contains(&format!("#define PARTS {PARTS}\n")));
    }
}
