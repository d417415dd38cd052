//! The LSTM: two products of the inputs into scratch memory, then one recurrence for each direction.

use dikast_core::graph::{Dim, Step, Symbol};
use dikast_core::{Error, Result};

use super::linear::{Operand, Target, linear};
use super::{LANES, Lowering};
use crate::recipe::{Binding, Grid, Recipe, small};
use crate::shaders::Shader;

pub(super) fn lower(l: &Lowering<'_>, index: usize, step: &Step) -> Result<Vec<Recipe>> {
    let Step::BiLstm { x, offsets, lengths, forward, backward, out } = *step else {
        return Err(Error::Internal(format!("{} is no LSTM", step.name())));
    };
    let hidden = l.columns(out) / 2;
    let padded = small(hidden.next_multiple_of(4))?;
    if padded > l.tiles.workgroup_memory / 8 {
        return Err(Error::Unsupported {
            device: l.device.to_owned(),
            need: format!("workgroup memory for an LSTM {hidden} wide"),
        });
    }
    let lanes = if hidden >= 256 && l.tiles.invocations >= 256 { 256 } else { LANES };
    let mut recipes = Vec::new();
    let mut recurrences = Vec::new();
    for (n, (direction, scratch)) in [forward, backward].into_iter().zip(&l.layout.scratch[index]).enumerate()
    {
        let stride = 4 * hidden;
        let target = Target { place: Binding::Place(*scratch), stride4: small(stride.div_ceil(4))? };
        let bias = Some(direction.input_bias);
        recipes.extend(linear(l, Operand::of(l, x)?, direction.input, bias, None, None, target)?);
        let [recurrent] = l.pieces(direction.hidden)? else { return Err(l.unsplit(direction.hidden)) };
        recurrences.push(Recipe {
            shader: Shader::Lstm(l.resident.placed(direction.hidden).format),
            constants: vec![("LANES", lanes), ("HIDDEN", padded)],
            params: vec![
                small(hidden)?,
                small(stride)?,
                l.stride(out)?,
                small(n * hidden)?,
                u32::from(n == 1),
            ],
            bindings: vec![
                Binding::Place(*scratch),
                Binding::Piece(*recurrent),
                l.whole(direction.hidden_bias)?,
                l.input(offsets)?,
                l.input(lengths)?,
                l.tensor(out)?,
            ],
            grid: Grid::Rows { x: 1, rows: Dim::Sym(Symbol::Sequences) },
        });
    }
    recipes.extend(recurrences);
    Ok(recipes)
}
