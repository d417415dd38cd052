//! The vision tower's own steps.

use dikast_core::Result;
use dikast_core::graph::{RowOp, Step};

use super::super::Lowering;
use super::{elementwise, misrouted, row_ops};
use crate::recipe::{Recipe, small};
use crate::shaders::ClefShader;

pub(super) fn lower(l: &Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    match *step {
        Step::AddPositions { x, table, taps, weights, out } => {
            let stride = l.stride4(x)?;
            let bindings =
                vec![l.tensor(x)?, l.whole(table)?, l.input(taps)?, l.tensor(weights)?, l.tensor(out)?];
            Ok(vec![elementwise(l, ClefShader::AddPositions, out, stride, [stride], bindings)?])
        }
        Step::MergeRows { x, out } => {
            let (columns, width) = (small(l.columns(out))?, small(l.columns(x))?);
            let params = [columns, width, columns / width.max(1), l.stride(x)?, l.stride(out)?];
            let bindings = vec![l.tensor(x)?, l.tensor(out)?];
            Ok(vec![elementwise(l, ClefShader::MergeRows, out, columns, params, bindings)?])
        }
        Step::ReplaceRows { x, rows, with, out } => {
            let mut recipes = row_ops::lower(l, RowOp::Copy { x }, l.tensor(out)?)?;
            let stride = l.stride4(x)?;
            // As many rows as are placed.
            recipes.push(elementwise(
                l,
                ClefShader::PlaceRows,
                with,
                stride,
                [stride],
                vec![l.tensor(with)?, l.input(rows)?, l.tensor(out)?],
            )?);
            Ok(recipes)
        }
        _ => Err(misrouted(step)),
    }
}
