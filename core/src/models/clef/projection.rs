//! Large projections: in full precision or INT8 ConvRot, fused where they read the same rows.

use crate::checkpoint::{StoredType, Weights};
use crate::graph::{
    Activation, Columns, Elements, GraphBuilder, Quantized, Residency, Rotation, RowOp, TensorId, Weight,
    WeightId,
};
use crate::numerics::hadamard::Group;
use crate::numerics::int8::Int8Mode;
use crate::{Error, Result};

/// A linear layer of the checkpoint without a bias of its own.
#[derive(Debug)]
pub(super) struct Projection {
    /// Name without `.weight`.
    pub(super) module: String,
    /// Rows.
    pub(super) out: usize,
    /// Columns.
    pub(super) k: usize,
}

/// How a projection is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Real,
    /// INT8 with the group of its rotation, with or without a correcting bias.
    Int8 {
        group: Option<Group>,
        bias: bool,
    },
}

/// Projections of the same rows: one product where all are stored alike, else one each.
#[derive(Debug)]
pub(super) struct Projections<'a> {
    name: &'a str,
    weights: &'a Weights,
    mode: Int8Mode,
    parts: Vec<(Projection, Format)>,
}

impl<'a> Projections<'a> {
    pub(super) fn new(
        name: &'a str,
        weights: &'a Weights,
        mode: Int8Mode,
        parts: impl IntoIterator<Item = Projection>,
    ) -> Result<Self> {
        let parts = parts.into_iter().map(|p| {
            let format = format(weights, &p.module)?;
            Ok((p, format))
        });
        Ok(Self { name, weights, mode, parts: parts.collect::<Result<_>>()? })
    }

    /// The products with a row function's result, one range of columns for each projection, and the row function's
    /// unquantized result if that is asked for.
    pub(super) fn of(
        &self,
        b: &mut GraphBuilder,
        op: RowOp,
        keep_rows: bool,
    ) -> (Vec<Columns>, Option<TensorId>) {
        let mut input = Input::new(self.name, op, self.mode);
        let alike = self.parts.windows(2).all(|p| p[0].1 == p[1].1);
        let mut columns = Vec::with_capacity(self.parts.len());
        if alike {
            let all: Vec<&Projection> = self.parts.iter().map(|(p, _)| p).collect();
            let tensor = self.product(b, self.name, &all, self.parts[0].1, &mut input, keep_rows, None);
            let mut start = 0;
            for (p, _) in &self.parts {
                columns.push(Columns { tensor, start, width: p.out });
                start += p.out;
            }
        } else {
            for (i, (p, format)) in self.parts.iter().enumerate() {
                let name = format!("{}.{i}", self.name);
                let tensor = self.product(b, &name, &[p], *format, &mut input, keep_rows, None);
                columns.push(Columns { tensor, start: 0, width: p.out });
            }
        }
        let rows = keep_rows.then(|| input.rows(b));
        (columns, rows)
    }

    /// `activation(first) · second` of two projections.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the two are stored differently.
    pub(super) fn gated(&self, b: &mut GraphBuilder, op: RowOp, activation: Activation) -> Result<TensorId> {
        let [(first, format), (second, other)] = self.parts.as_slice() else {
            return Err(Error::Internal(format!("{} does not have two halves", self.name)));
        };
        if format != other {
            return Err(Error::Unsupported {
                device: "the CLEF loader".to_owned(),
                need: format!("one format for {} and {}", first.module, second.module),
            });
        }
        let mut input = Input::new(self.name, op, self.mode);
        let all = [first, second];
        Ok(match *format {
            Format::Real => {
                let x = input.rows(b);
                let weight = self.stacked(b, self.name, &all, "weight", Elements::Real);
                b.linear_gated(self.name, x, weight, activation)
            }
            Format::Int8 { group, bias } => {
                let x = input.quantized(b, group, false);
                let (weight, bias) = self.int8(b, self.name, &all, bias);
                b.int8_linear_gated(self.name, x, weight, bias, activation)
            }
        })
    }

    /// The product of one projection added to a residual stream.
    pub(super) fn residual(&self, b: &mut GraphBuilder, op: RowOp, h: TensorId) -> TensorId {
        let (projection, format) = &self.parts[0];
        let mut input = Input::new(self.name, op, self.mode);
        self.product(b, self.name, &[projection], *format, &mut input, false, Some(h))
    }

    #[allow(clippy::too_many_arguments, reason = "the operands of one step")]
    fn product(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        parts: &[&Projection],
        format: Format,
        input: &mut Input<'_>,
        keep_rows: bool,
        residual: Option<TensorId>,
    ) -> TensorId {
        match format {
            Format::Real => {
                let x = input.rows(b);
                let weight = self.stacked(b, name, parts, "weight", Elements::Real);
                b.linear(name, x, weight, None, None, residual)
            }
            Format::Int8 { group, bias } => {
                let x = input.quantized(b, group, keep_rows);
                let (weight, bias) = self.int8(b, name, parts, bias);
                b.int8_linear(name, x, weight, bias, residual)
            }
        }
    }

    fn int8(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        parts: &[&Projection],
        bias: bool,
    ) -> ((WeightId, WeightId), Option<WeightId>) {
        let weight = self.stacked(b, name, parts, "weight", Elements::Int8);
        let scales = self.stacked(b, name, parts, "weight_scale", Elements::Real);
        let bias = bias.then(|| self.stacked(b, name, parts, "bias", Elements::Real));
        ((weight, scales), bias)
    }

    fn stacked(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        parts: &[&Projection],
        suffix: &str,
        elements: Elements,
    ) -> WeightId {
        let rows = parts.iter().map(|p| p.out).sum();
        let shape = match suffix {
            "weight" => vec![rows, parts[0].k],
            "weight_scale" => vec![rows, 1],
            _ => vec![rows],
        };
        debug_assert!(parts.iter().all(|p| self.weights.find(&format!("{}.{suffix}", p.module)).is_some()));
        b.add_weight(Weight {
            name: format!("{name}.{suffix}"),
            parts: parts.iter().map(|p| format!("{}.{suffix}", p.module)).collect(),
            shape,
            elements,
            residency: Residency::Device,
        })
    }
}

fn format(weights: &Weights, module: &str) -> Result<Format> {
    let storage = weights.storage(module)?;
    Ok(match storage.dtype {
        StoredType::I8 => Format::Int8 { group: storage.rotation, bias: storage.bias.is_some() },
        _ => Format::Real,
    })
}

/// A row function's result in the forms that were asked for, each made once.
struct Input<'a> {
    name: &'a str,
    op: RowOp,
    mode: Int8Mode,
    rows: Option<TensorId>,
    quantized: Vec<(Option<Group>, Quantized)>,
}

impl<'a> Input<'a> {
    fn new(name: &'a str, op: RowOp, mode: Int8Mode) -> Self {
        let rows = if let RowOp::Copy { x } = op { Some(x) } else { None };
        Self { name, op, mode, rows, quantized: Vec::new() }
    }

    fn rows(&mut self, b: &mut GraphBuilder) -> TensorId {
        *self.rows.get_or_insert_with(|| b.row_op(&format!("{}.in", self.name), self.op))
    }

    fn quantized(&mut self, b: &mut GraphBuilder, group: Option<Group>, keep_rows: bool) -> Quantized {
        if let Some((_, made)) = self.quantized.iter().find(|(g, _)| *g == group) {
            return *made;
        }
        let name = match self.quantized.len() {
            0 => format!("{}.in", self.name),
            n => format!("{}.in.{n}", self.name),
        };
        let rotation = Rotation { group, mode: self.mode };
        let keep = keep_rows && self.rows.is_none();
        let (made, rows) = b.rotate_quantize(&name, self.op, rotation, keep);
        self.rows = self.rows.or(rows);
        self.quantized.push((group, made));
        made
    }
}
