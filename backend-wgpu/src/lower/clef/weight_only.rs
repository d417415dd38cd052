//! INT8 products of rows that are not rounded to codes.

use dikast_core::Result;
use dikast_core::graph::Step;

use super::super::Lowering;
use super::super::linear::{Operand, choose, halves, number};
use super::misrouted;
use crate::format::{Element, Format};
use crate::recipe::{Binding, Recipe, dim, small};
use crate::shaders::Shader;

/// The products of rows that are kept as `element`.
pub(super) fn product(l: &Lowering<'_>, step: &Step, element: Element) -> Result<Vec<Recipe>> {
    let types = (Format::Int8, element, element);
    match *step {
        Step::Int8Linear { codes, scales, weight, weight_scales, bias, residual, out } => {
            let x = Operand::of(l, codes)?;
            let pieces = l.pieces(weight)?.iter().map(|&piece| {
                let choice = choose(l, &x, types, piece.rows, 1, None)?;
                Ok(Recipe {
                    shader: Shader::WeightLinear(choice.product),
                    constants: choice.chosen.constants,
                    params: vec![
                        dim(x.rows)?,
                        small(x.k)?,
                        small(piece.rows)?,
                        small(piece.first)?,
                        choice.x_stride,
                        choice.w_stride,
                        l.stride4(out)?,
                        u32::from(bias.is_some()),
                        u32::from(residual.is_some()),
                    ],
                    bindings: vec![
                        x.binding,
                        l.tensor(scales)?,
                        Binding::Piece(piece),
                        l.whole(weight_scales)?,
                        bias.map_or(Ok(Binding::Empty), |b| l.whole(b))?,
                        residual.map_or(Ok(Binding::Empty), |r| l.tensor(r))?,
                        l.tensor(out)?,
                    ],
                    grid: choice.chosen.grid,
                })
            });
            pieces.collect()
        }
        Step::Int8LinearGated { codes, scales, weight, weight_scales, bias, activation, out } => {
            let x = Operand::of(l, codes)?;
            let pieces = halves(l, weight)?.into_iter().map(|(gate, up, first)| {
                let choice = choose(l, &x, types, gate.rows, 2, Some(activation))?;
                Ok(Recipe {
                    shader: Shader::WeightLinearGated(choice.product),
                    constants: choice.chosen.constants,
                    params: vec![
                        dim(x.rows)?,
                        small(x.k)?,
                        small(gate.rows)?,
                        small(first)?,
                        choice.x_stride,
                        choice.w_stride,
                        l.stride4(out)?,
                        number(Some(activation)),
                        u32::from(bias.is_some()),
                        small(l.columns(out))?,
                    ],
                    bindings: vec![
                        x.binding,
                        l.tensor(scales)?,
                        Binding::Piece(gate),
                        Binding::Piece(up),
                        l.whole(weight_scales)?,
                        bias.map_or(Ok(Binding::Empty), |b| l.whole(b))?,
                        l.tensor(out)?,
                    ],
                    grid: choice.chosen.grid,
                })
            });
            pieces.collect()
        }
        _ => Err(misrouted(step)),
    }
}
