//! The products.

use dikast_core::graph::{Activation, Dim, Step, TensorId, WeightId};
use dikast_core::{Error, Result};

use super::Lowering;
use crate::format::{Element, Format};
use crate::placement::Piece;
use crate::range::LARGEST_F16;
use crate::recipe::{Binding, Recipe, dim, small};
use crate::shaders::{Core, Product, Shader};
use crate::tiles::{Chosen, Shape};

pub(super) fn lower(l: &Lowering<'_>, step: &Step) -> Result<Vec<Recipe>> {
    match *step {
        Step::Linear { x, weight, bias, activation, residual, out } => {
            let operand = Operand::of(l, x)?;
            let result = Target { place: l.tensor(out)?, stride4: l.stride4(out)? };
            linear(l, operand, weight, bias, activation, residual, result)
        }
        Step::LinearGated { x, weight, activation, out } => {
            let halves = halves(l, weight)?;
            let x = Operand::of(l, x)?;
            halves
                .into_iter()
                .map(|(gate, up, first)| {
                    let product = product(l, &x, weight);
                    let choice = choose(l, &x, product, gate.rows, 2, Some(activation))?;
                    Ok(Recipe {
                        shader: Shader::LinearGated(choice.product),
                        constants: choice.chosen.constants,
                        params: vec![
                            dim(x.rows)?,
                            small(x.k)?,
                            small(gate.rows)?,
                            small(first)?,
                            choice.x_stride,
                            choice.w_stride,
                            l.stride4(out)?,
                            number(Some(activation)),
                        ],
                        bindings: vec![x.binding, Binding::Piece(gate), Binding::Piece(up), l.tensor(out)?],
                        grid: choice.chosen.grid,
                    })
                })
                .collect()
        }
        Step::QuantLinear { codes, scales, weight, weight_scales, residual, out } => {
            let x = Operand::of(l, codes)?;
            let channel_scales = l.whole(weight_scales)?;
            l.pieces(weight)?
                .iter()
                .map(|&piece| {
                    let choice = choose(l, &x, quantized(l), piece.rows, 1, None)?;
                    Ok(Recipe {
                        shader: Shader::QuantLinear(choice.product),
                        constants: choice.chosen.constants,
                        params: vec![
                            dim(x.rows)?,
                            small(x.k)?,
                            small(piece.rows)?,
                            small(piece.first)?,
                            choice.x_stride,
                            choice.w_stride,
                            l.stride4(out)?,
                            u32::from(residual.is_some()),
                        ],
                        bindings: vec![
                            x.binding,
                            l.tensor(scales)?,
                            Binding::Piece(piece),
                            channel_scales,
                            residual.map_or(Ok(Binding::Empty), |r| l.tensor(r))?,
                            l.tensor(out)?,
                        ],
                        grid: choice.chosen.grid,
                    })
                })
                .collect()
        }
        Step::QuantLinearGated { codes, scales, weight, weight_scales, activation, out } => {
            let x = Operand::of(l, codes)?;
            let [gate_scales, up_scales] = l.resident.placed(weight_scales).pieces[..] else {
                return Err(l.unsplit(weight_scales));
            };
            halves(l, weight)?
                .into_iter()
                .map(|(gate, up, first)| {
                    let choice = choose(l, &x, quantized(l), gate.rows, 2, Some(activation))?;
                    Ok(Recipe {
                        shader: Shader::QuantLinearGated(choice.product),
                        constants: choice.chosen.constants,
                        params: vec![
                            dim(x.rows)?,
                            small(x.k)?,
                            small(gate.rows)?,
                            small(first)?,
                            choice.x_stride,
                            choice.w_stride,
                            l.stride4(out)?,
                            number(Some(activation)),
                        ],
                        bindings: vec![
                            x.binding,
                            l.tensor(scales)?,
                            Binding::Piece(gate),
                            Binding::Piece(up),
                            Binding::Piece(gate_scales),
                            Binding::Piece(up_scales),
                            l.tensor(out)?,
                        ],
                        grid: choice.chosen.grid,
                    })
                })
                .collect()
        }
        _ => Err(Error::Internal(format!("{} is no product", step.name()))),
    }
}

/// The left operand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operand {
    pub(super) binding: Binding,
    pub(super) rows: Dim,
    pub(super) k: usize,
    stride4: u32,
    /// Bound of the magnitudes.
    bound: f32,
}

impl Operand {
    pub(super) fn of(l: &Lowering<'_>, id: TensorId) -> Result<Self> {
        Ok(Self {
            binding: l.tensor(id)?,
            rows: l.rows(id),
            k: l.columns(id),
            stride4: l.stride4(id)?,
            bound: l.bounds[id.index()],
        })
    }
}

/// Where a product goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) place: Binding,
    pub(super) stride4: u32,
}

/// `activation(x·Wᵀ + b) + residual`, one dispatch for each piece of the weight.
pub(super) fn linear(
    l: &Lowering<'_>,
    x: Operand,
    weight: WeightId,
    bias: Option<WeightId>,
    activation: Option<Activation>,
    residual: Option<TensorId>,
    target: Target,
) -> Result<Vec<Recipe>> {
    let bias = bias.map(|b| l.whole(b)).transpose()?;
    let residual = residual.map(|r| l.tensor(r)).transpose()?;
    l.pieces(weight)?
        .iter()
        .map(|&piece| {
            let choice = choose(l, &x, product(l, &x, weight), piece.rows, 1, activation)?;
            Ok(Recipe {
                shader: Shader::Linear(choice.product),
                constants: choice.chosen.constants,
                params: vec![
                    dim(x.rows)?,
                    small(x.k)?,
                    small(piece.rows)?,
                    small(piece.first)?,
                    choice.x_stride,
                    choice.w_stride,
                    target.stride4,
                    number(activation),
                    u32::from(bias.is_some()),
                    u32::from(residual.is_some()),
                ],
                bindings: vec![
                    x.binding,
                    Binding::Piece(piece),
                    bias.unwrap_or(Binding::Empty),
                    residual.unwrap_or(Binding::Empty),
                    target.place,
                ],
                grid: choice.chosen.grid,
            })
        })
        .collect()
}

/// Storage and types of a product with a real weight, the core still open.
///
/// f16 where it loses nothing (a weight stored as such), or only what bfloat16 had already given away; and for a left
/// operand that is known to fit, which rounds it to 11 bits.
fn product(l: &Lowering<'_>, x: &Operand, weight: WeightId) -> (Format, Element, Element) {
    let format = l.resident.placed(weight).format;
    let half = |yes: bool| if l.f16 && yes { Element::F16 } else { Element::F32 };
    let w = match format {
        Format::F16 | Format::E4m3 | Format::Int8 => half(true),
        Format::Bf16 => half(l.resident.largest(weight) <= LARGEST_F16),
        Format::F32 => Element::F32,
    };
    (format, half(x.bound <= LARGEST_F16), w)
}

/// E4M3 values are exact in f16.
fn quantized(l: &Lowering<'_>) -> (Format, Element, Element) {
    let element = if l.f16 { Element::F16 } else { Element::F32 };
    (Format::E4m3, element, element)
}

/// A loop with what the shader needs to know of it.
pub(super) struct Choice {
    pub(super) chosen: Chosen,
    pub(super) product: Product,
    /// Row strides in the groups that the loop reads: of four elements, or of sixteen.
    pub(super) x_stride: u32,
    pub(super) w_stride: u32,
}

pub(super) fn choose(
    l: &Lowering<'_>,
    x: &Operand,
    (format, xe, we): (Format, Element, Element),
    columns: usize,
    halves: u32,
    activation: Option<Activation>,
) -> Result<Choice> {
    let shape = Shape {
        rows: x.rows,
        capacity: x.rows.bind(l.capacity),
        columns: small(columns)?,
        halves,
        codes: format == Format::E4m3,
        matrices: match format {
            Format::E4m3 => Some(x.k),
            Format::Int8 if xe == Element::F16 => Some(x.k),
            _ => None,
        },
        one_loop: activation == Some(Activation::GeluErf),
        x: xe,
        w: we,
    };
    let chosen = l.tiles.choose(shape);
    let (x_group, w_group) = match (chosen.core, format) {
        (Core::Cooperative, Format::Int8) => (4, 16),
        (Core::Cooperative, _) => (16, 16),
        (Core::Tile | Core::Skinny, _) => (4, 4),
    };
    let (x_type, w_type) = if format == Format::E4m3 { (chosen.staged, chosen.staged) } else { (xe, we) };
    let product = Product { core: chosen.core, format, x: x_type, w: w_type };
    Ok(Choice {
        chosen,
        product,
        x_stride: x.stride4 * 4 / x_group,
        w_stride: small(x.k.div_ceil(4))? * 4 / w_group,
    })
}

/// Pieces of both halves of a gated weight, side by side, with their first column in the result.
pub(super) fn halves(l: &Lowering<'_>, weight: WeightId) -> Result<Vec<(Piece, Piece, usize)>> {
    let pieces = l.pieces(weight)?;
    let half = l.resident.placed(weight).rows / 2;
    let (gate, up): (Vec<Piece>, Vec<Piece>) = pieces.iter().copied().partition(|p| p.first < half);
    let aligned = gate.len() == up.len()
        && gate.iter().zip(&up).all(|(g, u)| g.first + half == u.first && g.rows == u.rows);
    if !aligned {
        let name = &l.graph.weight(weight).name;
        return Err(Error::Internal(format!("the halves of {name} are cut differently")));
    }
    Ok(gate.into_iter().zip(up).map(|(g, u)| (g, u, g.first)).collect())
}

/// The number that `activation.wgsl` knows.
pub(super) fn number(activation: Option<Activation>) -> u32 {
    match activation {
        None => 0,
        Some(Activation::GeluErf) => 1,
        Some(Activation::GeluTanh) => 2,
        Some(Activation::Relu) => 3,
        Some(Activation::Silu) => 4,
    }
}
