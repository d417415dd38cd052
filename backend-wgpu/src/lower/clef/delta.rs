//! The gated delta rule: what every chunk is by itself, for all chunks at once; then the chunks of a sequence in order.

use dikast_core::graph::{Dim, Step, Symbol};
use dikast_core::{Error, Result};

use super::super::Lowering;
use super::misrouted;
use crate::recipe::{Binding, Grid, Recipe, dim, small};
use crate::shaders::{ClefShader, Shader};

/// Columns of a state in one workgroup: `gated_delta.wgsl` has the same number.
const COLUMNS: usize = 16;

pub(super) fn lower(l: &Lowering<'_>, index: usize, step: &Step) -> Result<Vec<Recipe>> {
    let Step::GatedDelta {
        x,
        gates,
        decay,
        decay_bias,
        offsets,
        key_heads,
        value_heads,
        key_dim,
        value_dim,
        out,
    } = *step
    else {
        return Err(misrouted(step));
    };
    // The state, two blocks of 32 rows, and a factor a row.
    let memory = 4 * (key_dim * COLUMNS + 2 * 32 * COLUMNS + 32);
    if memory > l.tiles.workgroup_memory as usize {
        return Err(Error::Unsupported {
            device: l.device.to_owned(),
            need: format!("{memory} bytes of workgroup memory for a delta rule with keys {key_dim} wide"),
        });
    }
    let (list, tasks) = l.inputs.tasks(l.graph, offsets, offsets, None)?;
    let &[records] = &l.layout.scratch[index][..] else { return Err(misrouted(step)) };
    let sequences = Dim::Sym(Symbol::Sequences);
    let blocks = value_dim.div_ceil(COLUMNS);
    Ok(vec![
        Recipe {
            shader: Shader::Clef(ClefShader::DeltaChunks),
            constants: vec![],
            params: vec![
                l.stride(x)?,
                l.stride(gates)?,
                small(key_heads)?,
                small(value_heads)?,
                small(key_dim)?,
            ],
            bindings: vec![
                l.tensor(x)?,
                l.tensor(gates)?,
                l.whole(decay)?,
                l.whole(decay_bias)?,
                tasks,
                Binding::Place(records),
            ],
            grid: Grid::Tasks { list, y: small(value_heads)?, z: 1 },
        },
        Recipe {
            shader: Shader::Clef(ClefShader::GatedDelta),
            constants: vec![("KEY_DIM", small(key_dim)?)],
            params: vec![
                l.stride(x)?,
                l.stride(out)?,
                small(key_heads)?,
                small(value_heads)?,
                small(key_dim)?,
                small(value_dim)?,
                small(blocks)?,
                dim(sequences)?,
            ],
            bindings: vec![l.tensor(x)?, Binding::Place(records), l.input(offsets)?, l.tensor(out)?],
            grid: Grid::Rows { x: small(value_heads * blocks)?, rows: sequences },
        },
    ])
}
