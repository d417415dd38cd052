//! Row functions.

use dikast_core::Result;
use dikast_core::graph::RowOp;

use super::super::norm::lanes;
use super::super::{LANES, Lowering};
use super::elementwise;
use crate::recipe::{Binding, Grid, Recipe, dim, small};
use crate::shaders::{ClefShader, Shader};

/// All rows of a function; `out` has the rows and the strides of its `x`.
pub(super) fn lower(l: &Lowering<'_>, op: RowOp, out: Binding) -> Result<Vec<Recipe>> {
    let x = op.x();
    let rows = l.rows(x);
    let recipe = match op {
        RowOp::Copy { .. } => {
            let (columns, stride) = (small(l.columns(x))?, l.stride(x)?);
            let params = [columns, columns, 1, stride, stride];
            elementwise(l, ClefShader::MergeRows, x, columns, params, vec![l.tensor(x)?, out])?
        }
        RowOp::RmsNorm { weight, eps, .. } => Recipe {
            shader: Shader::Clef(ClefShader::RowsRms),
            constants: vec![("LANES", lanes(l, x))],
            params: vec![dim(rows)?, small(l.columns(x))?, l.stride4(x)?, eps.to_bits()],
            bindings: vec![l.tensor(x)?, l.whole(weight)?, out],
            grid: Grid::Rows { x: 1, rows },
        },
        RowOp::GatedRmsNorm { gate, weight, eps, .. } => {
            let width = l.graph.weight(weight).shape.iter().product::<usize>();
            Recipe {
                shader: Shader::Clef(ClefShader::RowsGatedRms),
                constants: vec![("LANES", LANES)],
                params: vec![
                    dim(rows)?,
                    small(width)?,
                    l.stride(x)?,
                    l.stride(gate.tensor)?,
                    small(gate.start)?,
                    eps.to_bits(),
                ],
                bindings: vec![l.tensor(x)?, l.tensor(gate.tensor)?, l.whole(weight)?, out],
                grid: Grid::Rows { x: small(l.columns(x) / width.max(1))?, rows },
            }
        }
        RowOp::SigmoidGate { gate, .. } => {
            let columns = small(l.columns(x))?;
            let params = [
                columns,
                l.stride(x)?,
                small(gate.width)?,
                l.stride(gate.tensor)?,
                small(gate.start)?,
                small(gate.stride)?,
            ];
            let bindings = vec![l.tensor(x)?, l.tensor(gate.tensor)?, out];
            elementwise(l, ClefShader::RowsSigmoidGate, x, columns, params, bindings)?
        }
    };
    Ok(vec![recipe])
}
