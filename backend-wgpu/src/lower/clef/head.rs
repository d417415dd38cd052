//! The joint schema head's own steps.

use dikast_core::Result;
use dikast_core::graph::Step;

use super::super::Lowering;
use super::super::norm::lanes;
use super::{elementwise, misrouted};
use crate::placement::Kind;
use crate::recipe::{Binding, Grid, Recipe, dim, small};
use crate::shaders::{ClefShader, Shader};

pub(super) fn lower(l: &Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    match step {
        Step::PoolTableRows { ids, offsets, table, out } => {
            let placed = l.resident.placed(*table);
            let gathered = placed.kind == Kind::HostRows;
            let source = if gathered { l.inputs.gathered(l.graph, *ids, *table)? } else { l.whole(*table)? };
            let width4 = l.stride4(*out)?;
            let params = [width4, u32::from(gathered)];
            let bindings = vec![l.input(*ids)?, l.input(*offsets)?, source, l.tensor(*out)?];
            let shader = ClefShader::PoolTableRows(placed.format);
            Ok(vec![elementwise(l, shader, *out, width4, params, bindings)?])
        }
        Step::SoftmaxPool { x, query, offsets, scale, out } => Ok(vec![Recipe {
            shader: Shader::Clef(ClefShader::SoftmaxPool),
            constants: vec![("LANES", lanes(l, *x))],
            params: vec![dim(l.rows(*out))?, small(l.columns(*x))?, l.stride4(*x)?, scale.to_bits()],
            bindings: vec![l.tensor(*x)?, l.tensor(*query)?, l.input(*offsets)?, l.tensor(*out)?],
            grid: Grid::Rows { x: 1, rows: l.rows(*out) },
        }]),
        Step::Sum { terms, out } => {
            let stride = l.stride4(*out)?;
            let sum = |left: Binding, right, more: bool| {
                let bindings = vec![left, l.tensor(right)?, l.tensor(*out)?];
                elementwise(l, ClefShader::SumRows, *out, stride, [stride, u32::from(more)], bindings)
            };
            let [first, second, rest @ ..] = &terms[..] else { return Err(misrouted(step)) };
            let mut recipes = vec![sum(l.tensor(*first)?, *second, false)?];
            for term in rest {
                recipes.push(sum(Binding::Empty, *term, true)?);
            }
            Ok(recipes)
        }
        Step::PairFeatures { left, right, owner, out } => {
            let columns = small(l.columns(*right))?;
            let params = [columns, l.stride(*right)?, l.stride(*out)?];
            let bindings = vec![l.tensor(*left)?, l.tensor(*right)?, l.input(*owner)?, l.tensor(*out)?];
            Ok(vec![elementwise(l, ClefShader::PairFeatures, *out, columns, params, bindings)?])
        }
        // Two dispatches: together they would bind eleven buffers, and WebGPU grants eight.
        Step::JointScore {
            question,
            summary,
            sequence,
            lexical,
            field,
            option,
            owner,
            residual,
            prior_scale,
            joint_scale,
            gate,
            out,
        } => {
            let rows = l.rows(*out);
            let part = |shader, x, bindings| -> Result<Recipe> {
                Ok(Recipe {
                    shader: Shader::Clef(shader),
                    constants: vec![("LANES", lanes(l, x))],
                    params: vec![dim(rows)?, small(l.columns(x))?, l.stride4(x)?, l.stride(*out)?],
                    bindings,
                    grid: Grid::Rows { x: 1, rows },
                })
            };
            let prior = vec![
                l.tensor(*question)?,
                l.tensor(*summary)?,
                l.input(*sequence)?,
                l.tensor(*lexical)?,
                l.input(*owner)?,
                l.whole(*prior_scale)?,
                l.tensor(*out)?,
            ];
            let joint = vec![
                l.tensor(*field)?,
                l.tensor(*option)?,
                l.input(*owner)?,
                l.tensor(*residual)?,
                l.whole(*joint_scale)?,
                l.whole(*gate)?,
                l.tensor(*out)?,
            ];
            Ok(vec![
                part(ClefShader::JointPrior, *lexical, prior)?,
                part(ClefShader::JointScore, *option, joint)?,
            ])
        }
        _ => Err(misrouted(step)),
    }
}
