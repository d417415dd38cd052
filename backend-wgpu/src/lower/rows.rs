//! Rows moved or pooled: one invocation for four columns, or for one.

use dikast_core::graph::{Pool, Step};
use dikast_core::{Error, Result};

use super::{LANES, Lowering};
use crate::placement::Kind;
use crate::recipe::{Binding, Grid, Recipe, dim, small};
use crate::shaders::Shader;

pub(super) fn lower(l: &Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    match *step {
        Step::Embed { .. } => embed(l, step),
        Step::SelectRows { x, rows, out } => {
            let stride = l.stride4(x)?;
            Ok(vec![Recipe {
                shader: Shader::SelectRows,
                constants: vec![("LANES", LANES)],
                params: vec![dim(l.rows(out))?, stride],
                bindings: vec![l.tensor(x)?, l.input(rows)?, l.tensor(out)?],
                grid: Grid::Rows { x: stride.div_ceil(LANES), rows: l.rows(out) },
            }])
        }
        Step::Concat { left, left_rows, right, out } => {
            let (a, b) = (small(l.columns(left))?, small(l.columns(right))?);
            Ok(vec![Recipe {
                shader: Shader::Concat,
                constants: vec![("LANES", LANES)],
                params: vec![
                    dim(l.rows(out))?,
                    a,
                    b,
                    l.stride(left)?,
                    l.stride(right)?,
                    l.stride(out)?,
                    u32::from(left_rows.is_some()),
                ],
                bindings: vec![
                    l.tensor(left)?,
                    left_rows.map_or(Ok(Binding::Empty), |rows| l.input(rows))?,
                    l.tensor(right)?,
                    l.tensor(out)?,
                ],
                grid: Grid::Rows { x: (a + b).div_ceil(LANES), rows: l.rows(out) },
            }])
        }
        _ => Err(Error::Internal(format!("{} moves no rows", step.name()))),
    }
}

/// One dispatch, or one for each piece of a resident table.
fn embed(l: &Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    let Step::Embed { ids, table, segments, out } = *step else {
        return Err(Error::Internal(format!("{} is no embedding", step.name())));
    };
    let placed = l.resident.placed(table);
    let width4 = l.stride4(out)?;
    let sources = if placed.kind == Kind::HostRows {
        vec![(l.inputs.gathered(l.graph, ids, table)?, 1, 0, 0)]
    } else {
        l.pieces(table)?
            .iter()
            .map(|p| Ok((Binding::Piece(*p), 0, small(p.first)?, small(p.rows)?)))
            .collect::<Result<Vec<_>>>()?
    };
    let (segment_ids, segment_table) = match segments {
        Some((ids, table)) => (l.input(ids)?, l.whole(table)?),
        None => (Binding::Empty, Binding::Empty),
    };
    sources
        .into_iter()
        .map(|(source, gathered, first, count)| {
            Ok(Recipe {
                shader: Shader::Embed(placed.format),
                constants: vec![("LANES", LANES)],
                params: vec![
                    dim(l.rows(out))?,
                    width4,
                    gathered,
                    first,
                    count,
                    u32::from(segments.is_some()),
                ],
                bindings: vec![l.input(ids)?, source, segment_ids, segment_table, l.tensor(out)?],
                grid: Grid::Rows { x: width4.div_ceil(LANES), rows: l.rows(out) },
            })
        })
        .collect()
}

pub(super) fn pool(l: &Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    let (x, spans, out, kind) = match *step {
        Step::PoolSpans { x, spans, out } => (x, spans, out, None),
        Step::PoolText { x, spans, pool, out } => (x, spans, out, Some(number(pool))),
        _ => return Err(Error::Internal(format!("{} pools nothing", step.name()))),
    };
    let stride = l.stride4(x)?;
    let mut params = vec![dim(l.rows(out))?, stride];
    params.extend(kind);
    Ok(vec![Recipe {
        shader: if kind.is_some() { Shader::PoolText } else { Shader::PoolSpans },
        constants: vec![("LANES", LANES)],
        params,
        bindings: vec![l.tensor(x)?, l.input(spans)?, l.tensor(out)?],
        grid: Grid::Rows { x: stride.div_ceil(LANES), rows: l.rows(out) },
    }])
}

/// The number that `pool_text.wgsl` knows.
fn number(pool: Pool) -> u32 {
    match pool {
        Pool::First => 0,
        Pool::Last => 1,
        Pool::Avg => 2,
        Pool::Sum => 3,
        Pool::Max => 4,
        Pool::Rms => 5,
        Pool::AbsMax => 6,
        Pool::AbsAvg => 7,
    }
}
