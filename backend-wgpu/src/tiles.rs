//! Which loop a product runs in, and with what tile.
//!
//! The choice between the tile and the skinny loop, and all sizes, may depend on the number of rows of the bucket, because
//! they change no bit of the result. On a GPU the tile serves few rows too: its invocations read weights side by side, and
//! no driver has to compile an epilogue to the same bits twice. Cooperative matrices do change bits, so whether a product
//! has them depends on its weight alone.

use dikast_core::graph::Dim;

use crate::format::Element;
use crate::options::ProductChoice;
use crate::recipe::Grid;
use crate::shaders::Core;

/// Rows from which the tile is worth its barriers.
const SKINNY_ROWS: usize = 8;
/// Rows up to which many invocations matter more than many results of each.
const FEW_ROWS: usize = 384;
/// Rows of one invocation of the loop for few rows.
const SKINNY_BLOCK: u32 = 4;
/// Invocations of a workgroup of that loop.
const SKINNY_LANES: u32 = 64;
/// Rows and columns of a subgroup with cooperative matrices.
const COOPERATIVE_TILE: u32 = 32;
/// Depth of its tile: sums are a multiple of this long.
const COOPERATIVE_DEPTH: usize = 128;
/// Chains of a sum in the portable loops.
const QUARTERS: u32 = 4;
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
    /// Whether the device multiplies 16×16 matrices of f16.
    pub(crate) cooperative: bool,
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
    /// Whether both operands are E4M3 codes.
    pub(crate) codes: bool,
    /// Length of the sums, where they may be added up by cooperative matrices.
    pub(crate) matrices: Option<usize>,
    /// Whether the result must come from one loop for all numbers of rows. GPU drivers compile an error function
    /// differently in different loops, to a last bit.
    pub(crate) one_loop: bool,
    pub(crate) x: Element,
    pub(crate) w: Element,
}

/// A chosen loop.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) core: Core,
    pub(crate) constants: Vec<(&'static str, u32)>,
    /// How E4M3 codes are kept on their way; they are exact in either type.
    pub(crate) staged: Element,
    pub(crate) grid: Grid,
}

#[derive(Debug, Clone, Copy)]
struct Tile {
    threads_m: u32,
    threads_n: u32,
    rows: u32,
    depth4: u32,
    /// How E4M3 codes are kept in workgroup memory.
    staged: Element,
    /// Tiles in workgroup memory: 1 or 2.
    buffers: u32,
}

impl TileLimits {
    pub(crate) fn choose(&self, shape: Shape) -> Chosen {
        if self.is_cooperative(shape) {
            return self.cooperative(shape);
        }
        match self.choice {
            ProductChoice::Skinny => skinny(shape),
            ProductChoice::Tile { threads_m, threads_n, rows, depth, buffers } => {
                let tile = Tile {
                    threads_m: power(threads_m),
                    threads_n: power(threads_n),
                    rows: if rows > 4 { 8 } else { 4 },
                    depth4: power(depth / 4),
                    staged: shape.x,
                    buffers: buffers.clamp(1, 2),
                };
                self.tile(shape, tile)
            }
            // A browser's software adapter takes seconds to compile a loop with barriers.
            ProductChoice::Auto | ProductChoice::Cooperative { .. }
                if self.software && (shape.capacity <= SKINNY_ROWS || cfg!(target_arch = "wasm32")) =>
            {
                skinny(shape)
            }
            ProductChoice::Auto | ProductChoice::Cooperative { .. } => self.tile(shape, self.usual(shape)),
        }
    }

    /// The tile for a product's shape: the fastest of many on a large GPU. All of them give the same bits.
    fn usual(&self, shape: Shape) -> Tile {
        use Element::{F16, F32};

        let columns = shape.columns * shape.halves;
        let few_rows = shape.capacity <= FEW_ROWS;
        // Many invocations hide latency, which is what few rows wait for; many results of each save memory traffic.
        let (threads_m, threads_n, rows, depth, staged, buffers) = match shape.codes {
            _ if self.software => (8, 8, if shape.capacity <= 32 { 4 } else { 8 }, 16, F32, 1),
            _ if shape.one_loop => (8, 8, 4, 16, F16, 1),
            true if few_rows && columns <= 4096 => (8, 4, 4, 16, F32, 1),
            true if few_rows && columns <= 8192 => (4, 8, 8, 16, F16, 1),
            true if few_rows => (8, 4, 8, 16, F16, 1),
            true => (8, 8, 8, 16, F16, 1),
            false if shape.capacity <= 16 => (4, 4, 4, 16, F16, 2),
            false if few_rows => (8, 4, 4, 16, F16, 1),
            false => (8, 8, 8, 32, F16, 1),
        };
        Tile { threads_m, threads_n, rows, depth4: depth / 4, staged, buffers }
    }

    /// Depends on the weight and the device alone, not on the rows: the bits of this loop are its own.
    fn is_cooperative(&self, shape: Shape) -> bool {
        let chosen = matches!(self.choice, ProductChoice::Auto | ProductChoice::Cooperative { .. });
        self.cooperative
            && chosen
            && shape.matrices.is_some_and(|k| k > 0 && k.is_multiple_of(COOPERATIVE_DEPTH))
    }

    fn cooperative(&self, shape: Shape) -> Chosen {
        let (m, n) = match self.choice {
            ProductChoice::Cooperative { m, n } => (subgroups(m), subgroups(n)),
            _ if shape.capacity > 512 => (2, 2),
            _ => (1, 2),
        };
        // Forced tiles may be too large.
        let fits = |m, n| {
            cooperative_bytes(m, n) <= self.workgroup_memory && 32 * parts(m, n) * m * n <= self.invocations
        };
        let (m, n) = if fits(m, n) { (m, n) } else { (1, 1) };
        let columns = COOPERATIVE_TILE * n / shape.halves;
        Chosen {
            core: Core::Cooperative,
            constants: vec![("SUBGROUPS_M", m), ("SUBGROUPS_N", n), ("PARTS", parts(m, n))],
            staged: Element::F16,
            grid: Grid::Blocks {
                x: shape.columns.div_ceil(columns),
                rows: shape.rows,
                per: COOPERATIVE_TILE * m,
            },
        }
    }

    /// The tile of a packed product of INT8 codes: its constants, and its workgroups. Every tile gives the same bits.
    pub(crate) fn packed(
        &self,
        rows: Dim,
        capacity: usize,
        columns: u32,
        halves: u32,
    ) -> (Vec<(&'static str, u32)>, Grid) {
        let (mut m, mut n, rows_each, depth) = match self.choice {
            ProductChoice::Tile { threads_m, threads_n, rows, depth, .. } => {
                (power(threads_m), power(threads_n), if rows > 4 { 8 } else { 4 }, power(depth / 4))
            }
            _ if self.software => (8, 8, 8, 8),
            _ if capacity <= FEW_ROWS => (16, 8, 4, 8),
            _ => (8, 16, 8, 8),
        };
        while m * n > self.invocations && n > 1 {
            m = (m / 2).max(1);
            n /= 2;
        }
        // Two turns of all invocations fill a tile.
        let mut depth = depth.min(m).min(n);
        while 16 * depth * (m * rows_each / 4 + 2 * n) > self.workgroup_memory && depth > 1 {
            depth /= 2;
        }
        let constants = vec![("THREADS_M", m), ("THREADS_N", n), ("ROWS", rows_each), ("DEPTH", depth)];
        let grid = Grid::Blocks { x: columns.div_ceil(n * TILE_COLUMNS / halves), rows, per: m * rows_each };
        (constants, grid)
    }

    /// A tile made small enough for the device.
    fn tile(&self, shape: Shape, mut tile: Tile) -> Chosen {
        while QUARTERS * tile.threads_m * tile.threads_n > self.invocations && tile.threads_n > 1 {
            if tile.threads_m > 1 {
                tile.threads_m /= 2;
            }
            tile.threads_n /= 2;
        }
        // Two turns of all invocations fill a tile.
        tile.depth4 = tile.depth4.min(tile.threads_m).min(tile.threads_n);
        let (x, w) = if shape.codes { (tile.staged, tile.staged) } else { (shape.x, shape.w) };
        if tile.bytes(x, w) > self.workgroup_memory {
            tile.buffers = 1;
        }
        while tile.bytes(x, w) > self.workgroup_memory && tile.depth4 > 1 {
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
                ("BUFFERS", tile.buffers),
            ],
            staged: tile.staged,
            grid: Grid::Blocks { x: shape.columns.div_ceil(columns), rows: shape.rows, per },
        }
    }
}

impl Tile {
    /// Workgroup memory.
    fn bytes(self, x: Element, w: Element) -> u32 {
        let depth = 4 * self.depth4;
        // The tiles of all quarters, and two groups of four sums of every invocation.
        QUARTERS
            * (self.buffers
                * depth
                * (self.threads_m * self.rows * x.bytes() + self.threads_n * TILE_COLUMNS * w.bytes())
                + 2 * 16 * self.threads_m * self.threads_n)
    }
}

/// The power of two at or below a number of invocations or a depth.
fn power(n: u32) -> u32 {
    1 << n.clamp(1, 32).ilog2()
}

/// What `coop.wgsl` takes: 1, 2 or 4.
fn subgroups(n: u32) -> u32 {
    match n {
        0 | 1 => 1,
        2 | 3 => 2,
        _ => 4,
    }
}

/// Workgroup memory of a cooperative product: `coop.wgsl` has the same numbers.
fn cooperative_bytes(m: u32, n: u32) -> u32 {
    COOPERATIVE_TILE * (m + n) * 34 * 8 + 16 * 9 * parts(m, n) * m * n * 16
}

/// Subgroups that share the two chains of a result: one has both where the tile is large enough without.
fn parts(m: u32, n: u32) -> u32 {
    if m >= 2 && n >= 2 { 1 } else { 2 }
}

fn skinny(shape: Shape) -> Chosen {
    Chosen {
        core: Core::Skinny,
        constants: vec![("LANES", SKINNY_LANES)],
        staged: Element::F32,
        grid: Grid::Blocks { x: shape.columns.div_ceil(SKINNY_LANES), rows: shape.rows, per: SKINNY_BLOCK },
    }
}
