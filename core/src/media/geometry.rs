//! The grid of patches, and what the vision tower derives from it.
//!
//! Patches stand frame by frame; within a frame by blocks of `merge × merge` in raster order, and within a block in
//! raster order, so that the patches that the tower merges are neighbours.

/// Patches of one picture or video: `t` temporal patches (1 for a picture), `h` rows and `w` columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Temporal patches.
    pub t: usize,
    /// Rows of patches.
    pub h: usize,
    /// Columns of patches.
    pub w: usize,
}

impl Grid {
    /// Patches.
    pub fn patches(&self) -> usize {
        self.t * self.h * self.w
    }

    /// Tokens: one for every `merge × merge` patches.
    pub fn tokens(&self, merge: usize) -> usize {
        self.patches() / (merge * merge)
    }

    /// Tokens of one temporal patch.
    pub fn tokens_per_frame(&self, merge: usize) -> usize {
        self.h * self.w / (merge * merge)
    }
}

/// Row and column of every patch, in patch order: `[t * h * w]`.
pub fn patch_coordinates(grid: Grid, merge: usize) -> Vec<[i32; 2]> {
    let mut out = Vec::with_capacity(grid.patches());
    for _ in 0..grid.t {
        for block_row in (0..grid.h).step_by(merge) {
            for block_col in (0..grid.w).step_by(merge) {
                for row in block_row..block_row + merge {
                    for col in block_col..block_col + merge {
                        out.push([row as i32, col as i32]);
                    }
                }
            }
        }
    }
    out
}

/// Patches of each frame: the segments within which the vision tower attends, `[t]`.
pub fn frame_lengths(grid: Grid) -> Vec<usize> {
    vec![grid.h * grid.w; grid.t]
}

/// The four rows of a learned `side × side` position table that make up each patch's position, and their bilinear
/// weights, both `[t * h * w]` in patch order. Table rows count in raster order; corners are aligned, so that the first
/// and the last patch of an axis meet the first and the last row of the table; every frame is alike.
///
/// Weights are computed in 32-bit floats, as in the reference.
pub fn position_taps(grid: Grid, merge: usize, table_side: usize) -> (Vec<[i32; 4]>, Vec<[f32; 4]>) {
    let side = table_side as i32;
    let rows: Vec<_> = (0..grid.h).map(|i| axis_taps(i, grid.h, table_side)).collect();
    let cols: Vec<_> = (0..grid.w).map(|i| axis_taps(i, grid.w, table_side)).collect();
    patch_coordinates(grid, merge)
        .into_iter()
        .map(|[row, col]| {
            let ([r0, r1], [a0, a1]) = rows[row as usize];
            let ([c0, c1], [b0, b1]) = cols[col as usize];
            let taps = [r0 * side + c0, r0 * side + c1, r1 * side + c0, r1 * side + c1];
            (taps, [a0 * b0, a0 * b1, a1 * b0, a1 * b1])
        })
        .unzip()
}

/// Two neighbouring entries of an axis of the table and their weights.
fn axis_taps(index: usize, size: usize, side: usize) -> ([i32; 2], [f32; 2]) {
    let last = side.saturating_sub(1);
    let source = index as f32 * last as f32 / size.saturating_sub(1).max(1) as f32;
    let low = source.floor();
    let clamp = |tap: f32| (tap as usize).min(last) as i32;
    let weight = |tap: f32| (1.0 - (source - tap).abs()).max(0.0);
    // The reference takes the second distance from `source - low - 1`.
    let above = (1.0 - (source - low - 1.0).abs()).max(0.0);
    ([clamp(low), clamp(low + 1.0)], [weight(low), above])
}
