//! What the vision tower derives from a grid.

use dikast_core::media::{Grid, frame_lengths, patch_coordinates, position_taps};

const GRID: Grid = Grid { t: 2, h: 4, w: 6 };

#[test]
fn patches_stand_in_blocks_frame_by_frame() {
    let coordinates = patch_coordinates(GRID, 2);
    assert_eq!(coordinates.len(), 48);
    assert_eq!(coordinates[..8], [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]]);
    assert_eq!(coordinates[12..16], [[2, 0], [2, 1], [3, 0], [3, 1]]);
    assert_eq!(coordinates[..24], coordinates[24..]);
    let mut sorted = coordinates[..24].to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 24);
    assert_eq!(frame_lengths(GRID), [24, 24]);
    assert_eq!((GRID.tokens(2), GRID.tokens_per_frame(2)), (12, 6));
}

#[test]
fn corners_of_the_grid_meet_corners_of_the_table() {
    let side = 8;
    let (taps, weights) = position_taps(GRID, 2, side);
    let coordinates = patch_coordinates(GRID, 2);
    let main = |row: i32, col: i32| {
        let i = coordinates.iter().position(|c| *c == [row, col]).unwrap();
        let heaviest = (0..4).max_by(|a, b| weights[i][*a].total_cmp(&weights[i][*b])).unwrap();
        (taps[i][heaviest], weights[i][heaviest])
    };
    assert_eq!(main(0, 0), (0, 1.0));
    assert_eq!(main(0, 5), (7, 1.0));
    assert_eq!(main(3, 0), (56, 1.0));
    assert_eq!(main(3, 5), (63, 1.0));
}

#[test]
fn taps_interpolate_the_table() {
    // A table whose entry is its row and column: what comes out is the source coordinate.
    for (grid, side) in [(GRID, 8), (Grid { t: 1, h: 2, w: 44 }, 48), (Grid { t: 1, h: 86, w: 60 }, 48)] {
        let (taps, weights) = position_taps(grid, 2, side);
        let scale = |i: i32, n: usize| f64::from(i) * (side - 1) as f64 / (n - 1) as f64;
        for ((taps, weights), [row, col]) in taps.iter().zip(&weights).zip(patch_coordinates(grid, 2)) {
            let (mut sum, mut at) = (0.0, [0.0; 2]);
            for (&tap, &weight) in taps.iter().zip(weights) {
                let tap = usize::try_from(tap).unwrap();
                assert!(tap < side * side);
                let weight = f64::from(weight);
                assert!((0.0..=1.0).contains(&weight));
                sum += weight;
                at[0] += weight * (tap / side) as f64;
                at[1] += weight * (tap % side) as f64;
            }
            assert!((sum - 1.0).abs() < 1e-5, "{sum}");
            assert!((at[0] - scale(row, grid.h)).abs() < 1e-4, "{at:?} at {row} {col}");
            assert!((at[1] - scale(col, grid.w)).abs() < 1e-4, "{at:?} at {row} {col}");
        }
    }
}

#[test]
fn an_axis_of_one_patch_takes_the_first_entry() {
    let (taps, weights) = position_taps(Grid { t: 1, h: 1, w: 1 }, 1, 8);
    assert_eq!((taps[0][0], weights[0]), (0, [1.0, 0.0, 0.0, 0.0]));
    let (taps, weights) = position_taps(Grid { t: 1, h: 2, w: 2 }, 2, 1);
    assert!(taps.iter().all(|t| *t == [0; 4]));
    assert!(weights.iter().all(|w| w.iter().sum::<f32>() == 1.0));
}
