//! The scorers' own steps.

use dikast_core::graph::{Dim, Step, Symbol};
use dikast_core::{Error, Result};

use super::norm::lanes;
use super::{LANES, Lowering};
use crate::recipe::{Grid, Recipe, dim, small};
use crate::shaders::Shader;

pub(super) fn lower(l: &Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    let recipe = match *step {
        Step::PairProduct { text, classes, owner, out } => {
            let half = small(l.columns(classes) / 2)?;
            Recipe {
                shader: Shader::PairProduct,
                constants: vec![("LANES", LANES)],
                params: vec![dim(l.rows(out))?, half, l.stride(classes)?, l.stride(out)?],
                bindings: vec![l.tensor(text)?, l.tensor(classes)?, l.input(owner)?, l.tensor(out)?],
                grid: Grid::Rows { x: (3 * half).div_ceil(LANES), rows: l.rows(out) },
            }
        }
        Step::HopfieldMix { query, key, value, classes, offsets, beta, out } => Recipe {
            shader: Shader::HopfieldMix,
            constants: vec![("LANES", lanes(l, classes))],
            params: vec![small(l.columns(classes))?, l.stride4(classes)?, beta.to_bits()],
            bindings: vec![
                l.tensor(query)?,
                l.tensor(key)?,
                l.tensor(value)?,
                l.tensor(classes)?,
                l.input(offsets)?,
                l.tensor(out)?,
            ],
            grid: Grid::Rows { x: 1, rows: Dim::Sym(Symbol::Sequences) },
        },
        Step::Dot { text, classes, owner, out } => Recipe {
            shader: Shader::Dot,
            constants: vec![("LANES", lanes(l, classes))],
            params: vec![dim(l.rows(out))?, small(l.columns(classes))?, l.stride4(classes)?, l.stride(out)?],
            bindings: vec![l.tensor(text)?, l.tensor(classes)?, l.input(owner)?, l.tensor(out)?],
            grid: Grid::Rows { x: 1, rows: l.rows(out) },
        },
        Step::Scale { x, by, out } => {
            // A list has one element a row and no padding.
            let list = l.graph.tensor(x).shape.len() == 1;
            let stride = if list { 1 } else { l.stride(x)? };
            Recipe {
                shader: Shader::Scale,
                constants: vec![("LANES", LANES)],
                params: vec![dim(l.rows(x))?, stride],
                bindings: vec![l.tensor(x)?, l.whole(by)?, l.tensor(out)?],
                grid: Grid::Rows { x: stride.div_ceil(LANES), rows: l.rows(x) },
            }
        }
        _ => return Err(Error::Internal(format!("{} is no scorer step", step.name()))),
    };
    Ok(vec![recipe])
}
