//! CLEF's own steps.

mod delta;
mod head;
mod int8;
mod mixer;
mod row_ops;
mod vision;
mod weight_only;

use dikast_core::graph::{Step, TensorId};
use dikast_core::{Error, Result};

use super::{LANES, Lowering};
use crate::recipe::{Binding, Grid, Recipe, dim};
use crate::shaders::{ClefShader, Shader};

pub(super) fn lower(l: &Lowering<'_>, index: usize, step: &Step) -> Result<Vec<Recipe>> {
    match *step {
        Step::Rows { op, out } => row_ops::lower(l, op, l.tensor(out)?),
        Step::RotateQuantize { .. } => int8::quantize(l, index, step),
        Step::Int8Linear { codes, .. } | Step::Int8LinearGated { codes, .. } => match l.unrounded.of(codes) {
            Some(element) => weight_only::product(l, step, element),
            None => int8::product(l, step),
        },
        Step::GatedDelta { .. } => delta::lower(l, index, step),
        Step::CausalConv { .. } | Step::HeadRotary { .. } | Step::CausalAttention { .. } => {
            mixer::lower(l, step)
        }
        Step::AddPositions { .. } | Step::MergeRows { .. } | Step::ReplaceRows { .. } => {
            vision::lower(l, step)
        }
        _ => head::lower(l, step),
    }
}

fn misrouted(step: &Step) -> Error {
    Error::Internal(format!("{} is lowered elsewhere", step.name()))
}

/// A dispatch of one invocation for each of `columns` elements, or groups of four, of each row of `out`. The parameters begin
/// with the rows.
fn elementwise(
    l: &Lowering<'_>,
    shader: ClefShader,
    out: TensorId,
    columns: u32,
    params: impl IntoIterator<Item = u32>,
    bindings: Vec<Binding>,
) -> Result<Recipe> {
    let rows = l.rows(out);
    Ok(Recipe {
        shader: Shader::Clef(shader),
        constants: vec![("LANES", LANES)],
        params: [dim(rows)?].into_iter().chain(params).collect(),
        bindings,
        grid: Grid::Rows { x: columns.div_ceil(LANES), rows },
    })
}
