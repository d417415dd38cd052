//! Attention.

use dikast_core::graph::{Step, Symbol};
use dikast_core::{Error, Result};

use super::Lowering;
use crate::recipe::{Binding, Grid, Recipe, small};
use crate::shaders::Shader;

/// Columns of a head's output in one workgroup.
const OUTPUT_COLUMNS: u32 = 64;

pub(super) fn lower(l: &mut Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    let Step::Attention { q, k, v, q_offsets, kv_offsets, kv_lengths, heads, head_dim, scale, bias, out } =
        *step
    else {
        return Err(Error::Internal(format!("{} is no attention", step.name())));
    };
    let (list, tasks) = l.inputs.tasks(l.graph, q_offsets, kv_offsets, kv_lengths)?;
    let (table, buckets, reach) = match bias {
        Some(bias) => {
            // No distance of this bucket is larger, and beyond max_distance the bias is the same.
            let longest = l.capacity.get(Symbol::Tokens).max(l.capacity.get(Symbol::TextTokens)).max(1);
            let reach = small(bias.max_distance.min(longest))?;
            (l.whole(bias.table)?, l.constants.buckets(bias, reach), reach)
        }
        None => (Binding::Empty, Binding::Empty, 0),
    };
    // Strides are multiples of four.
    let aligned = head_dim % 4 == 0 && [q, k, v].iter().all(|operand| operand.start % 4 == 0);
    let mut params = vec![small(head_dim)?, small(heads)?];
    for operand in [q, k, v] {
        params.extend([l.stride(operand.tensor)?, small(operand.start)?]);
    }
    params.extend([l.stride(out)?, reach, u32::from(bias.is_some()), scale.to_bits()]);
    Ok(vec![Recipe {
        shader: Shader::Attention,
        constants: vec![("ALIGNED", u32::from(aligned))],
        params,
        bindings: vec![
            l.tensor(q.tensor)?,
            l.tensor(k.tensor)?,
            l.tensor(v.tensor)?,
            tasks,
            table,
            buckets,
            l.tensor(out)?,
        ],
        grid: Grid::Tasks { list, y: small(heads)?, z: small(head_dim)?.div_ceil(OUTPUT_COLUMNS) },
    }])
}
