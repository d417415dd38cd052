//! Row-wise norms and the row quantizer: one workgroup a row.

use dikast_core::graph::{Step, TensorId};
use dikast_core::{Error, Result};

use super::Lowering;
use crate::recipe::{Grid, Recipe, dim, small};
use crate::shaders::Shader;

pub(super) fn lower(l: &Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    let (x, shader, eps, bindings) = match *step {
        Step::RmsNorm { x, weight, eps, out } => {
            (x, Shader::RmsNorm, Some(eps), vec![l.tensor(x)?, l.whole(weight)?, l.tensor(out)?])
        }
        Step::RmsNormQuantize { x, weight, eps, codes, scales } => (
            x,
            Shader::RmsNormQuantize,
            Some(eps),
            vec![l.tensor(x)?, l.whole(weight)?, l.tensor(codes)?, l.tensor(scales)?],
        ),
        Step::Quantize { x, codes, scales } => {
            (x, Shader::Quantize, None, vec![l.tensor(x)?, l.tensor(codes)?, l.tensor(scales)?])
        }
        Step::LayerNorm { x, weight, bias, eps, out } => (
            x,
            Shader::LayerNorm,
            Some(eps),
            vec![l.tensor(x)?, l.whole(weight)?, l.whole(bias)?, l.tensor(out)?],
        ),
        Step::L2Normalize { x, eps, out } => {
            (x, Shader::L2Normalize, Some(eps), vec![l.tensor(x)?, l.tensor(out)?])
        }
        _ => return Err(Error::Internal(format!("{} is no norm", step.name()))),
    };
    let mut params = vec![dim(l.rows(x))?, small(l.columns(x))?, l.stride4(x)?];
    params.extend(eps.map(f32::to_bits));
    let lanes = lanes(l, x);
    Ok(vec![Recipe {
        shader,
        constants: vec![("LANES", lanes)],
        params,
        bindings,
        grid: Grid::Rows { x: 1, rows: l.rows(x) },
    }])
}

/// Invocations a row. The order of a row's sum follows from this, so it may depend on the width and the device alone.
pub(super) fn lanes(l: &Lowering<'_>, x: TensorId) -> u32 {
    let wide = l.columns(x) >= 1024 && l.tiles.invocations >= 256 && !l.tiles.software;
    if wide { 256 } else { 64 }
}
