//! The shape check: run once, when a graph is finished.

mod clef;

use std::collections::HashSet;

use super::{Columns, DType, Dim, Elements, Graph, LstmDirection, Step, Symbol, TensorId, WeightId};
use crate::{Error, Result};

/// Checks names, order, types and shapes.
pub(super) fn check(graph: &Graph) -> Result<()> {
    let mut names = HashSet::new();
    for tensor in &graph.tensors {
        if !names.insert(tensor.name.as_str()) {
            return Err(fault(graph, "tensors", format!("the name {} is used twice", tensor.name)));
        }
    }
    let mut written: HashSet<TensorId> = graph.inputs.iter().map(|i| i.tensor).collect();
    for (index, step) in graph.steps.iter().enumerate() {
        let context = || format!("step {index} {}", step.name());
        for id in step.reads() {
            if !written.contains(&id) {
                let name = &graph.tensor(id).name;
                return Err(fault(graph, &context(), format!("reads {name} before it is written")));
            }
        }
        for id in step.outputs() {
            if !written.insert(id) {
                return Err(fault(graph, &context(), format!("writes {} again", graph.tensor(id).name)));
            }
        }
        Checker { graph }.step(step).map_err(|m| fault(graph, &context(), m))?;
    }
    if !written.contains(&graph.output) {
        return Err(fault(graph, "output", "is never written"));
    }
    Ok(())
}

fn fault(graph: &Graph, place: &str, message: impl std::fmt::Display) -> Error {
    Error::Internal(format!("graph {}: {place}: {message}", graph.name))
}

struct Checker<'a> {
    graph: &'a Graph,
}

type Check = Result<(), String>;

impl Checker<'_> {
    fn step(&self, step: &Step) -> Check {
        match *step {
            Step::Embed { ids, table, segments, out } => {
                self.i32s(ids, &[self.rows(out)])?;
                let width = self.cols(out)?;
                self.weight_width(table, width)?;
                if let Some((ids, table)) = segments {
                    self.i32s(ids, &[self.rows(out)])?;
                    self.weight_width(table, width)?;
                }
                Ok(())
            }
            Step::RmsNorm { x, weight, out, .. } => {
                self.same(x, out)?;
                self.weight(weight, &[self.cols(x)?])
            }
            Step::RmsNormQuantize { x, weight, codes, scales, .. } => {
                self.weight(weight, &[self.cols(x)?])?;
                self.quantized(x, codes, scales)
            }
            Step::Quantize { x, codes, scales } => self.quantized(x, codes, scales),
            Step::LayerNorm { x, weight, bias, out, .. } => {
                self.same(x, out)?;
                self.weight(weight, &[self.cols(x)?])?;
                self.weight(bias, &[self.cols(x)?])
            }
            Step::Linear { x, weight, bias, residual, out, .. } => {
                self.real(weight)?;
                self.product(x, weight, self.cols(out)?)?;
                if let Some(bias) = bias {
                    self.weight(bias, &[self.cols(out)?])?;
                }
                residual.map_or(Ok(()), |r| self.same(r, out))
            }
            Step::LinearGated { x, weight, out, .. } => {
                self.real(weight)?;
                self.product(x, weight, 2 * self.cols(out)?)
            }
            Step::QuantLinear { codes, scales, weight, weight_scales, residual, out } => {
                self.quant_product(codes, scales, weight, weight_scales, self.cols(out)?)?;
                residual.map_or(Ok(()), |r| self.same(r, out))
            }
            Step::QuantLinearGated { codes, scales, weight, weight_scales, out, .. } => {
                self.quant_product(codes, scales, weight, weight_scales, 2 * self.cols(out)?)
            }
            Step::Attention {
                q,
                k,
                v,
                q_offsets,
                kv_offsets,
                kv_lengths,
                heads,
                head_dim,
                bias,
                out,
                ..
            } => {
                for operand in [q, k, v] {
                    self.columns(operand, heads * head_dim)?;
                }
                self.expect(self.rows(k.tensor) == self.rows(v.tensor), || "k and v differ in rows".into())?;
                self.expect(self.rows(q.tensor) == self.rows(out), || "q and out differ in rows".into())?;
                self.expect(self.cols(out)? == heads * head_dim, || {
                    "out is not heads × head_dim wide".into()
                })?;
                // Groups are sequences, or frames of pictures.
                let groups = match self.graph.tensor(q_offsets).shape.as_slice() {
                    [Dim::Offsets(Symbol::Frames)] => Dim::Offsets(Symbol::Frames),
                    _ => Dim::Offsets(Symbol::Sequences),
                };
                self.i32s(q_offsets, &[groups])?;
                self.i32s(kv_offsets, &[groups])?;
                if let Some(lengths) = kv_lengths {
                    self.i32s(lengths, &[Symbol::Sequences.into()])?;
                }
                if let Some(bias) = bias {
                    self.weight(bias.table, &[bias.buckets, heads])?;
                    self.expect(bias.buckets >= 4 && bias.buckets % 4 == 0, || {
                        "buckets must be a positive multiple of 4".into()
                    })?;
                    self.expect(bias.max_distance > bias.buckets / 4, || "max_distance is too small".into())?;
                    self.expect(q_offsets == kv_offsets, || {
                        "bias needs queries and keys in the same rows".into()
                    })?;
                }
                Ok(())
            }
            Step::SelectRows { x, rows, out } => {
                self.i32s(rows, &[self.rows(out)])?;
                self.equal_cols(x, out)
            }
            Step::PoolSpans { x, spans, out } => {
                self.i32s(spans, &[self.rows(out), 2.into()])?;
                self.equal_cols(x, out)
            }
            Step::PoolText { x, spans, out, .. } => {
                self.i32s(spans, &[self.rows(out), 3.into()])?;
                self.equal_cols(x, out)
            }
            Step::BiLstm { x, offsets, lengths, forward, backward, out } => {
                self.i32s(offsets, &[Dim::Offsets(Symbol::Sequences)])?;
                self.i32s(lengths, &[Symbol::Sequences.into()])?;
                let (width, hidden) = (self.cols(x)?, self.cols(out)? / 2);
                for LstmDirection { input, hidden: recurrent, input_bias, hidden_bias } in [forward, backward]
                {
                    self.weight(input, &[4 * hidden, width])?;
                    self.weight(recurrent, &[4 * hidden, hidden])?;
                    self.weight(input_bias, &[4 * hidden])?;
                    self.weight(hidden_bias, &[4 * hidden])?;
                }
                self.expect(self.rows(x) == self.rows(out), || "x and out differ in rows".into())
            }
            Step::L2Normalize { x, out, .. } => self.same(x, out),
            Step::Concat { left, left_rows, right, out } => {
                match left_rows {
                    Some(rows) => self.i32s(rows, &[self.rows(out)])?,
                    None => self
                        .expect(self.rows(left) == self.rows(out), || "left and out differ in rows".into())?,
                }
                self.expect(self.cols(out)? == self.cols(left)? + self.cols(right)?, || {
                    "widths do not add up".into()
                })
            }
            Step::PairProduct { text, classes, owner, out } => {
                self.i32s(owner, &[self.rows(classes)])?;
                self.equal_cols(text, classes)?;
                self.expect(self.cols(classes)? % 2 == 0, || "classes must have two halves".into())?;
                self.expect(self.cols(out)? == self.cols(classes)? / 2 * 3, || {
                    "out must have three parts".into()
                })
            }
            Step::HopfieldMix { query, key, value, classes, offsets, out, .. } => {
                self.i32s(offsets, &[Dim::Offsets(Symbol::Sequences)])?;
                self.same(query, classes)?;
                self.same(out, classes)?;
                self.same(key, value)?;
                self.equal_cols(key, classes)
            }
            Step::Dot { text, classes, owner, out } => {
                self.i32s(owner, &[self.rows(classes)])?;
                self.equal_cols(text, classes)?;
                self.expect(self.rows(classes) == self.rows(out), || "classes and out differ in rows".into())
            }
            Step::Scale { x, by, out } => {
                self.same(x, out)?;
                self.weight(by, &[])
            }
            _ => self.clef(step),
        }
    }

    fn expect(&self, holds: bool, message: impl FnOnce() -> String) -> Check {
        if holds { Ok(()) } else { Err(message()) }
    }

    fn name(&self, id: TensorId) -> &str {
        &self.graph.tensor(id).name
    }

    fn rows(&self, id: TensorId) -> Dim {
        self.graph.tensor(id).shape[0]
    }

    fn cols(&self, id: TensorId) -> Result<usize, String> {
        match self.graph.tensor(id).shape.as_slice() {
            [_, Dim::Fixed(n)] => Ok(*n),
            shape => Err(format!("{} is no matrix of fixed width: {shape:?}", self.name(id))),
        }
    }

    fn equal_cols(&self, a: TensorId, b: TensorId) -> Check {
        let (wa, wb) = (self.cols(a)?, self.cols(b)?);
        self.expect(wa == wb, || format!("{} is {wa} wide, {} {wb}", self.name(a), self.name(b)))
    }

    fn same(&self, a: TensorId, b: TensorId) -> Check {
        let (ta, tb) = (self.graph.tensor(a), self.graph.tensor(b));
        self.expect(ta.shape == tb.shape && ta.dtype == tb.dtype, || {
            format!(
                "{} is {:?} {:?}, {} is {:?} {:?}",
                ta.name, ta.dtype, ta.shape, tb.name, tb.dtype, tb.shape
            )
        })
    }

    fn i32s(&self, id: TensorId, shape: &[Dim]) -> Check {
        let t = self.graph.tensor(id);
        self.expect(t.dtype == DType::I32 && t.shape == shape, || {
            format!("{} is {:?} {:?}, I32 {shape:?} is needed", t.name, t.dtype, t.shape)
        })
    }

    fn columns(&self, c: Columns, width: usize) -> Check {
        let cols = self.cols(c.tensor)?;
        self.expect(c.width == width && c.start + c.width <= cols, || {
            format!(
                "columns {}+{} of {} ({cols} wide), {width} needed",
                c.start,
                c.width,
                self.name(c.tensor)
            )
        })
    }

    fn weight(&self, id: WeightId, shape: &[usize]) -> Check {
        let w = self.graph.weight(id);
        self.expect(w.shape == shape, || format!("weight {} is {:?}, {shape:?} is needed", w.name, w.shape))
    }

    fn weight_width(&self, id: WeightId, width: usize) -> Check {
        let w = self.graph.weight(id);
        self.expect(w.shape.len() == 2 && w.shape[1] == width, || {
            format!("weight {} is {:?}, a matrix {width} wide is needed", w.name, w.shape)
        })
    }

    fn real(&self, id: WeightId) -> Check {
        let w = self.graph.weight(id);
        self.expect(w.elements == Elements::Real, || format!("weight {} holds codes", w.name))
    }

    fn product(&self, x: TensorId, weight: WeightId, n: usize) -> Check {
        self.weight(weight, &[n, self.cols(x)?])
    }

    fn quantized(&self, x: TensorId, codes: TensorId, scales: TensorId) -> Check {
        let (x, c, s) = (self.graph.tensor(x), self.graph.tensor(codes), self.graph.tensor(scales));
        self.expect(c.dtype == DType::F8E4M3 && c.shape == x.shape, || {
            format!("{} does not hold the codes", c.name)
        })?;
        self.expect(s.dtype == DType::F32 && s.shape == x.shape[..1], || {
            format!("{} does not hold the scales", s.name)
        })
    }

    fn quant_product(
        &self,
        codes: TensorId,
        scales: TensorId,
        weight: WeightId,
        weight_scales: WeightId,
        n: usize,
    ) -> Check {
        self.quantized(codes, codes, scales)?;
        let w = self.graph.weight(weight);
        self.expect(w.elements == Elements::E4M3, || format!("weight {} does not hold FP8 codes", w.name))?;
        self.weight(weight_scales, &[n, 1])?;
        self.product(codes, weight, n)
    }
}
