//! Which loop a product runs in, and with what tile.
//!
//! The choice may depend on the number of rows of the bucket, because no choice changes a bit of the result.

use dikast_core::graph::Dim;

use crate::format::Element;
use crate::options::ProductChoice;
use crate::recipe::Grid;
use crate::shaders::Core;

/// Rows from which the tile is worth its barriers.
const SKINNY_ROWS: usize = 8;
/// Rows of one invocation of the loop for few rows.
const SKINNY_BLOCK: u32 = 4;
/// Invocations of a workgroup of that loop.
const SKINNY_LANES: u32 = 64;
/// Columns of one invocation of a tile.
const TILE_COLUMNS: u32 = 8;

/// What a device has for products.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TileLimits {
    pub(crate) invocations: u32,
    pub(crate) workgroup_memory: u32,
    pub(crate) choice: ProductChoice,
    /// A processor: large tiles gain nothing.
    pub(crate) software: bool,
}

/// The shape of one product.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rows: Dim,
    /// Rows at most.
    pub(crate) capacity: usize,
    /// Columns of the result.
    pub(crate) columns: u32,
    /// 2 for a gate: twice as many columns are computed.
    pub(crate) halves: u32,
    pub(crate) x: Element,
    pub(crate) w: Element,
}

/// A chosen loop.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) core: Core,
    pub(crate) constants: Vec<(&'static str, u32)>,
    pub(crate) grid: Grid,
}

#[derive(Debug, Clone, Copy)]
struct Tile {
    threads_m: u32,
    threads_n: u32,
    rows: u32,
    depth4: u32,
}

impl TileLimits {
    pub(crate) fn choose(&self, shape: Shape) -> Chosen {
        match self.choice {
            ProductChoice::Skinny => skinny(shape),
            ProductChoice::Tile { threads_m, threads_n, rows, depth } => {
                let tile = Tile {
                    threads_m: threads_m.clamp(1, 32),
                    threads_n: threads_n.clamp(1, 32),
                    rows: if rows > 4 { 8 } else { 4 },
                    depth4: (depth / 4).clamp(1, 16),
                };
                self.tile(shape, tile)
            }
            // A browser's software adapter takes seconds to compile a loop with barriers.
            ProductChoice::Auto
                if shape.capacity <= SKINNY_ROWS || (self.software && cfg!(target_arch = "wasm32")) =>
            {
                skinny(shape)
            }
            ProductChoice::Auto => {
                // Fewer rows an invocation where that would leave most of a tile empty.
                let rows = if shape.capacity <= 32 { 4 } else { 8 };
                let threads = if !self.software && shape.capacity >= 512 { 16 } else { 8 };
                self.tile(shape, Tile { threads_m: threads, threads_n: threads, rows, depth4: 8 })
            }
        }
    }

    /// A tile made small enough for the device.
    fn tile(&self, shape: Shape, mut tile: Tile) -> Chosen {
        while tile.threads_m * tile.threads_n > self.invocations && tile.threads_n > 1 {
            if tile.threads_m > 1 {
                tile.threads_m /= 2;
            }
            tile.threads_n /= 2;
        }
        while tile.bytes(shape) > self.workgroup_memory && tile.depth4 > 1 {
            tile.depth4 /= 2;
        }
        let per = tile.threads_m * tile.rows;
        let columns = tile.threads_n * TILE_COLUMNS / shape.halves;
        Chosen {
            core: Core::Tile,
            constants: vec![
                ("THREADS_M", tile.threads_m),
                ("THREADS_N", tile.threads_n),
                ("ROWS", tile.rows),
                ("DEPTH4", tile.depth4),
            ],
            grid: Grid::Blocks { x: shape.columns.div_ceil(columns), rows: shape.rows, per },
        }
    }
}

impl Tile {
    /// Workgroup memory.
    fn bytes(self, shape: Shape) -> u32 {
        let depth = 4 * self.depth4;
        depth
            * (self.threads_m * self.rows * shape.x.bytes() + self.threads_n * TILE_COLUMNS * shape.w.bytes())
    }
}

fn skinny(shape: Shape) -> Chosen {
    Chosen {
        core: Core::Skinny,
        constants: vec![("LANES", SKINNY_LANES)],
        grid: Grid::Blocks { x: shape.columns.div_ceil(SKINNY_LANES), rows: shape.rows, per: SKINNY_BLOCK },
    }
}
