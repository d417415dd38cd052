//! INT8: the row quantizer and the packed products of codes.

use dikast_core::Result;
use dikast_core::graph::{RowOp, Step};
use dikast_core::numerics::int8::Int8Mode;

use super::super::Lowering;
use super::super::linear::{halves, number};
use super::{misrouted, row_ops};
use crate::recipe::{Binding, Grid, Recipe, dim, small};
use crate::shaders::{ClefShader, RowCodes, Shader};

/// The row function into memory, then the quantizer; the quantizer alone for rows that are there.
pub(super) fn quantize(l: &Lowering<'_>, index: usize, step: &Step) -> Result<Vec<Recipe>> {
    let Step::RotateQuantize { op, rotation, codes, scales, rows } = *step else {
        return Err(misrouted(step));
    };
    let x = op.x();
    let (mut recipes, source) = match (rows, op, &l.layout.scratch[index][..]) {
        (Some(rows), ..) => {
            let rows = l.tensor(rows)?;
            (row_ops::lower(l, op, rows)?, rows)
        }
        (None, RowOp::Copy { .. }, _) => (Vec::new(), l.tensor(x)?),
        (None, _, &[scratch]) => {
            let scratch = Binding::Place(scratch);
            (row_ops::lower(l, op, scratch)?, scratch)
        }
        _ => return Err(misrouted(step)),
    };
    let made = match (rotation.mode, l.unrounded.of(codes)) {
        (_, Some(element)) => RowCodes::Unrounded(element),
        (Int8Mode::Exact, None) => RowCodes::Exact,
        (Int8Mode::Standard, None) => RowCodes::Standard,
    };
    let group = rotation.group.map_or(1, |g| g.size() as u32);
    recipes.push(Recipe {
        shader: Shader::Clef(ClefShader::RotateQuantize(made)),
        constants: vec![],
        params: vec![dim(l.rows(x))?, small(l.columns(x))?, l.stride4(x)?, group, group.trailing_zeros() / 2],
        bindings: vec![source, l.tensor(codes)?, l.tensor(scales)?],
        grid: Grid::Rows { x: 1, rows: l.rows(x) },
    });
    Ok(recipes)
}

/// Products of codes by codes.
pub(super) fn product(l: &Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    match *step {
        Step::Int8Linear { codes, scales, weight, weight_scales, bias, residual, out } => {
            let (words, rows) = (l.stride4(codes)?, l.rows(codes));
            let pieces = l.pieces(weight)?.iter().map(|&piece| {
                let (constants, grid) = l.tiles.packed(rows, rows.bind(l.capacity), small(piece.rows)?, 1);
                Ok(Recipe {
                    shader: Shader::Clef(ClefShader::Int8Linear),
                    constants,
                    params: vec![
                        dim(rows)?,
                        words,
                        small(piece.rows)?,
                        small(piece.first)?,
                        words,
                        words,
                        l.stride4(out)?,
                        u32::from(bias.is_some()),
                        u32::from(residual.is_some()),
                        0,
                    ],
                    bindings: vec![
                        l.tensor(codes)?,
                        l.tensor(scales)?,
                        Binding::Piece(piece),
                        l.whole(weight_scales)?,
                        bias.map_or(Ok(Binding::Empty), |b| l.whole(b))?,
                        residual.map_or(Ok(Binding::Empty), |r| l.tensor(r))?,
                        l.tensor(out)?,
                    ],
                    grid,
                })
            });
            pieces.collect()
        }
        Step::Int8LinearGated { codes, scales, weight, weight_scales, bias, activation, out } => {
            let (words, rows) = (l.stride4(codes)?, l.rows(codes));
            let pieces = halves(l, weight)?.into_iter().map(|(gate, up, first)| {
                let (constants, grid) = l.tiles.packed(rows, rows.bind(l.capacity), small(gate.rows)?, 2);
                Ok(Recipe {
                    shader: Shader::Clef(ClefShader::Int8LinearGated),
                    constants,
                    params: vec![
                        dim(rows)?,
                        words,
                        small(gate.rows)?,
                        small(first)?,
                        words,
                        words,
                        l.stride4(out)?,
                        number(Some(activation)),
                        u32::from(bias.is_some()),
                        small(l.columns(out))?,
                        0,
                    ],
                    bindings: vec![
                        l.tensor(codes)?,
                        l.tensor(scales)?,
                        Binding::Piece(gate),
                        Binding::Piece(up),
                        l.whole(weight_scales)?,
                        bias.map_or(Ok(Binding::Empty), |b| l.whole(b))?,
                        l.tensor(out)?,
                    ],
                    grid,
                })
            });
            pieces.collect()
        }
        _ => Err(misrouted(step)),
    }
}
