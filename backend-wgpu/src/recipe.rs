//! A dispatch before it becomes one: plain data, made without a device.

use dikast_core::graph::{Dim, Sizes, Symbol};
use dikast_core::{Error, Result};

use crate::layout::Place;
use crate::placement::Piece;
use crate::shaders::Shader;

/// One dispatch of a step.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) shader: Shader,
    /// Values of pipeline-overridable constants.
    pub(crate) constants: Vec<(&'static str, u32)>,
    /// The uniform `params`, member by member.
    pub(crate) params: Vec<u32>,
    /// Storage buffers, from binding 2.
    pub(crate) bindings: Vec<Binding>,
    pub(crate) grid: Grid,
}

/// What a storage binding shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// An activation.
    Place(Place),
    /// Rows of a weight.
    Piece(Piece),
    /// Bytes of the input buffer.
    Input { offset: u64, bytes: u64 },
    /// Bytes of the plan's own constants.
    Constant { offset: u64, bytes: u64 },
    /// An operand that is not there.
    Empty,
}

/// Workgroups of a dispatch, known per batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grid {
    /// `x` workgroups for each of the rows, which lie along y and z.
    Rows { x: u32, rows: Dim },
    /// `x` workgroups for each block of `per` rows.
    Blocks { x: u32, rows: Dim, per: u32 },
    /// `y × z` workgroups for each task of a list.
    Tasks { list: usize, y: u32, z: u32 },
}

impl Grid {
    /// Workgroups in x, y and z; `limit` is the most in one dimension.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the batch needs more.
    pub(crate) fn size(self, sizes: &Sizes, tasks: &[u32], limit: u32) -> Result<[u32; 3]> {
        let count = |rows: Dim| rows.bind(sizes) as u64;
        let [x, y, z] = match self {
            Self::Rows { x, rows } => {
                let rows = count(rows);
                let y = rows.min(u64::from(limit));
                [u64::from(x), y, rows.div_ceil(y.max(1))]
            }
            Self::Blocks { x, rows, per } => [u64::from(x), count(rows).div_ceil(u64::from(per)), 1],
            Self::Tasks { list, y, z } => {
                [tasks.get(list).copied().unwrap_or(0).into(), u64::from(y), u64::from(z)]
            }
        };
        let most = x.max(y).max(z);
        if most > u64::from(limit) {
            return Err(Error::TooLarge {
                what: "workgroups of a step".to_owned(),
                limit: u64::from(limit),
                actual: most,
            });
        }
        Ok([x as u32, y as u32, z as u32])
    }
}

/// Words of the batch's sizes in front of the inputs; the last three are not used.
pub(crate) const SIZES: usize = 12;

/// The batch's sizes in the order of [`dim`].
pub(crate) fn words(sizes: &Sizes) -> [u32; SIZES] {
    let mut words = [0; SIZES];
    let all = [
        sizes.tokens,
        sizes.sequences,
        sizes.labels,
        sizes.text_tokens,
        sizes.questions,
        sizes.option_tokens,
        sizes.patches,
        sizes.media_tokens,
        sizes.frames,
    ];
    words.iter_mut().zip(all).for_each(|(w, n)| *w = n as u32);
    words
}

/// A dimension as the shaders read it (`bound` in `common.wgsl`).
pub(crate) fn dim(dim: Dim) -> Result<u32> {
    match dim {
        Dim::Sym(Symbol::Tokens) => Ok(0),
        Dim::Sym(Symbol::Sequences) => Ok(1),
        Dim::Sym(Symbol::Labels) => Ok(2),
        Dim::Sym(Symbol::TextTokens) => Ok(3),
        Dim::Sym(Symbol::Questions) => Ok(4),
        Dim::Sym(Symbol::OptionTokens) => Ok(5),
        Dim::Sym(Symbol::Patches) => Ok(6),
        Dim::Sym(Symbol::MediaTokens) => Ok(7),
        Dim::Sym(Symbol::Frames) => Ok(8),
        Dim::Fixed(n) => small(n + SIZES),
        Dim::Offsets(_) => Err(Error::Internal("a matrix has offsets for rows".to_owned())),
    }
}

/// A size as the shaders read it.
pub(crate) fn small(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::TooLarge {
        what: "elements of a dimension".to_owned(),
        limit: u64::from(u32::MAX),
        actual: n as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fold_into_two_dimensions() {
        let sizes = Sizes { tokens: 10, ..Sizes::default() };
        let rows = Dim::Sym(Symbol::Tokens);
        let size = |grid: Grid, limit| grid.size(&sizes, &[3], limit);
        assert_eq!(size(Grid::Rows { x: 2, rows }, 65535), Ok([2, 10, 1]));
        assert_eq!(size(Grid::Rows { x: 2, rows }, 4), Ok([2, 4, 3]));
        assert_eq!(size(Grid::Blocks { x: 2, rows, per: 4 }, 4), Ok([2, 3, 1]));
        assert_eq!(size(Grid::Tasks { list: 0, y: 4, z: 1 }, 4), Ok([3, 4, 1]));
        assert!(matches!(
            size(Grid::Blocks { x: 2, rows, per: 1 }, 4),
            Err(Error::TooLarge { actual: 10, .. })
        ));
        assert_eq!(dim(Dim::Fixed(3)), Ok(15));
    }
}
