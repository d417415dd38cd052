//! Positions on three axes (M-RoPE).

use super::MediaSpan;

/// Position of each of `tokens` rows on the axes time, height and width.
///
/// A text row moves all axes on by one. The rows of a picture or of a frame pair stand on a grid: the same time, their
/// row and column added to the height and width; what follows stands after the longer side. `spans` are in the order
/// of their rows.
pub(super) fn positions(tokens: usize, spans: &[MediaSpan]) -> Vec<[i32; 3]> {
    let mut positions = Vec::with_capacity(tokens);
    // Never over the number of rows, which the caller keeps in range.
    let mut next = 0_i32;
    let text = |positions: &mut Vec<[i32; 3]>, next: &mut i32, end: usize| {
        while positions.len() < end {
            positions.push([*next; 3]);
            *next += 1;
        }
    };
    for span in spans {
        text(&mut positions, &mut next, span.rows.start as usize);
        let [height, width] = span.grid.map(|side| side as i32);
        for row in 0..height {
            positions.extend((0..width).map(|column| [next, next + row, next + column]));
        }
        next += height.max(width);
    }
    text(&mut positions, &mut next, tokens);
    positions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::MediaKind;
    use crate::tokens::Span;

    #[test]
    fn without_media_the_index() {
        assert_eq!(positions(3, &[]), [[0; 3], [1; 3], [2; 3]]);
    }

    #[test]
    fn a_grid_advances_by_its_longer_side() {
        let rows = Span { start: 1, end: 7 };
        let span = MediaSpan { kind: MediaKind::Image, item: 0, frame: 0, rows, grid: [3, 2] };
        let expected =
            [[0, 0, 0], [1, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 2], [1, 3, 1], [1, 3, 2], [4, 4, 4]];
        assert_eq!(positions(8, &[span]), expected);
    }
}
