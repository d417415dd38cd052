//! The decoder's convolution, rotary positions and causal attention.

use dikast_core::Result;
use dikast_core::graph::Step;

use super::super::{LANES, Lowering};
use super::misrouted;
use crate::layout::stride;
use crate::recipe::{Binding, Grid, Recipe, dim, small};
use crate::shaders::{ClefShader, Shader};

/// Columns of a head's output in one workgroup.
const OUTPUT_COLUMNS: u32 = 64;

pub(super) fn lower(l: &Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    match step {
        Step::CausalConv { x, weight, offsets, out } => {
            let (list, tasks) = l.inputs.tasks(l.graph, *offsets, *offsets, None)?;
            let taps = l.graph.weight(*weight).shape.iter().skip(1).product::<usize>();
            let columns = small(x.width)?;
            Ok(vec![Recipe {
                shader: Shader::Clef(ClefShader::CausalConv),
                constants: vec![("LANES", LANES)],
                params: vec![
                    columns,
                    small(taps)?,
                    small(stride(taps))?,
                    l.stride(x.tensor)?,
                    small(x.start)?,
                    l.stride(*out)?,
                ],
                bindings: vec![l.tensor(x.tensor)?, l.whole(*weight)?, tasks, l.tensor(*out)?],
                grid: Grid::Tasks { list, y: columns.div_ceil(LANES), z: 1 },
            }])
        }
        Step::HeadRotary { parts, eps, frequencies, positions, out } => {
            let turns = l.inputs.turns(l.graph, *positions, frequencies)?;
            let mut start = 0;
            let mut recipes = Vec::with_capacity(parts.len());
            for part in parts {
                let heads = part.heads;
                recipes.push(Recipe {
                    shader: Shader::Clef(ClefShader::HeadRotary),
                    constants: vec![("LANES", LANES)],
                    params: vec![
                        dim(l.rows(*out))?,
                        l.stride(heads.tensor)?,
                        small(heads.start)?,
                        small(heads.stride)?,
                        small(heads.width)?,
                        l.stride(*out)?,
                        small(start)?,
                        small(frequencies.len())?,
                        u32::from(part.norm.is_some()),
                        eps.to_bits(),
                    ],
                    bindings: vec![
                        l.tensor(heads.tensor)?,
                        part.norm.map_or(Ok(Binding::Empty), |w| l.whole(w))?,
                        turns,
                        l.tensor(*out)?,
                    ],
                    grid: Grid::Rows { x: small(heads.count)?, rows: l.rows(*out) },
                });
                start += heads.count * heads.width;
            }
            Ok(recipes)
        }
        Step::CausalAttention { q, k, v, offsets, heads, kv_heads, head_dim, scale, out } => {
            let (list, tasks) = l.inputs.tasks(l.graph, *offsets, *offsets, None)?;
            let mut params = vec![small(*head_dim)?, small(heads / kv_heads)?];
            for operand in [q, k, v] {
                params.extend([l.stride(operand.tensor)?, small(operand.start)?]);
            }
            params.extend([l.stride(*out)?, scale.to_bits()]);
            Ok(vec![Recipe {
                shader: Shader::Clef(ClefShader::CausalAttention),
                constants: vec![],
                params,
                bindings: vec![
                    l.tensor(q.tensor)?,
                    l.tensor(k.tensor)?,
                    l.tensor(v.tensor)?,
                    tasks,
                    l.tensor(*out)?,
                ],
                grid: Grid::Tasks { list, y: small(*heads)?, z: small(*head_dim)?.div_ceil(OUTPUT_COLUMNS) },
            }])
        }
        _ => Err(misrouted(step)),
    }
}
