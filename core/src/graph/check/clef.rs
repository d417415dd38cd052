//! The checks of the steps of CLEF models.

use super::{Check, Checker};
use crate::graph::{DType, Dim, Elements, Heads, Rotation, RowOp, Step, Symbol, TensorId, WeightId};

impl Checker<'_> {
    /// A step of CLEF models.
    pub(super) fn clef(&self, step: &Step) -> Check {
        match step {
            Step::Rows { op, out } => {
                self.row_op(op)?;
                self.same(op.x(), *out)
            }
            Step::RotateQuantize { op, rotation, codes, scales, rows } => {
                self.row_op(op)?;
                self.rotation(*rotation, self.cols(op.x())?)?;
                self.int8(op.x(), *codes, *scales)?;
                rows.map_or(Ok(()), |rows| self.same(op.x(), rows))
            }
            Step::Int8Linear { codes, scales, weight, weight_scales, bias, residual, out } => {
                self.int8_product(*codes, *scales, (*weight, *weight_scales, *bias), self.cols(*out)?)?;
                residual.map_or(Ok(()), |r| self.same(r, *out))
            }
            Step::Int8LinearGated { codes, scales, weight, weight_scales, bias, out, .. } => {
                self.int8_product(*codes, *scales, (*weight, *weight_scales, *bias), 2 * self.cols(*out)?)
            }
            Step::CausalConv { x, weight, offsets, out } => {
                let channels = self.cols(*out)?;
                self.columns(*x, channels)?;
                self.sequence_offsets(*offsets)?;
                let w = self.graph.weight(*weight);
                self.expect(w.shape.len() == 3 && w.shape[..2] == [channels, 1], || {
                    format!("weight {} is {:?}, [{channels}, 1, taps] is needed", w.name, w.shape)
                })
            }
            Step::GatedDelta {
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
            } => {
                self.expect(*key_heads > 0 && value_heads % key_heads == 0, || {
                    format!("{value_heads} value heads are no multiple of {key_heads} key heads")
                })?;
                let values = value_heads * value_dim;
                self.wide(*x, 2 * key_heads * key_dim + values)?;
                self.wide(*gates, 2 * value_heads)?;
                self.wide(*out, values)?;
                for vector in [decay, decay_bias] {
                    self.weight(*vector, &[*value_heads])?;
                }
                self.sequence_offsets(*offsets)
            }
            Step::HeadRotary { parts, frequencies, positions, out, .. } => {
                let axes = self.graph.tensor(*positions).shape.get(1).copied();
                let Some(Dim::Fixed(axes)) = axes else { return Err("positions are no matrix".into()) };
                self.i32s(*positions, &[self.rows(*out), axes.into()])?;
                self.expect(frequencies.iter().all(|f| f.axis < axes), || "a frequency has no axis".into())?;
                let mut width = 0;
                for part in parts {
                    self.heads(part.heads)?;
                    self.expect(self.rows(part.heads.tensor) == self.rows(*out), || "rows differ".into())?;
                    self.expect(2 * frequencies.len() <= part.heads.width, || {
                        format!("{} frequencies do not fit heads of {}", frequencies.len(), part.heads.width)
                    })?;
                    if let Some(norm) = part.norm {
                        self.weight(norm, &[part.heads.width])?;
                    }
                    width += part.heads.count * part.heads.width;
                }
                self.wide(*out, width)
            }
            Step::CausalAttention { q, k, v, offsets, heads, kv_heads, head_dim, out, .. } => {
                self.expect(*kv_heads > 0 && heads % kv_heads == 0, || {
                    format!("{heads} heads are no multiple of {kv_heads} key heads")
                })?;
                self.columns(*q, heads * head_dim)?;
                self.columns(*k, kv_heads * head_dim)?;
                self.columns(*v, kv_heads * head_dim)?;
                let rows = [q, k, v].map(|c| self.rows(c.tensor));
                self.expect(rows.iter().all(|r| *r == self.rows(*out)), || "rows differ".into())?;
                self.wide(*out, heads * head_dim)?;
                self.sequence_offsets(*offsets)
            }
            Step::AddPositions { x, table, taps, weights, out } => {
                self.same(*x, *out)?;
                self.weight_width(*table, self.cols(*x)?)?;
                self.i32s(*taps, &[self.rows(*x), 4.into()])?;
                let t = self.graph.tensor(*weights);
                self.expect(t.dtype == DType::F32 && t.shape == [self.rows(*x), 4.into()], || {
                    format!("{} does not hold four weights a row", t.name)
                })
            }
            Step::MergeRows { x, out } => {
                let (narrow, wide) = (self.cols(*x)?, self.cols(*out)?);
                self.expect(narrow > 0 && wide % narrow == 0, || {
                    format!("{wide} columns are no multiple of {narrow}")
                })
            }
            Step::ReplaceRows { x, rows, with, out } => {
                self.same(*x, *out)?;
                self.i32s(*rows, &[self.rows(*with)])?;
                self.equal_cols(*x, *with)
            }
            Step::PoolTableRows { ids, offsets, table, out } => {
                self.i32s(*ids, &[self.rows(*ids)])?;
                self.row_offsets(*offsets, *out)?;
                self.weight_width(*table, self.cols(*out)?)
            }
            Step::SoftmaxPool { x, query, offsets, out, .. } => {
                self.same(*query, *out)?;
                self.equal_cols(*x, *query)?;
                self.row_offsets(*offsets, *query)
            }
            Step::Sum { terms, out } => {
                self.expect(terms.len() >= 2, || "fewer than two terms".into())?;
                terms.iter().try_for_each(|t| self.same(*t, *out))
            }
            Step::PairFeatures { left, right, owner, out } => {
                self.i32s(*owner, &[self.rows(*right)])?;
                self.equal_cols(*left, *right)?;
                self.expect(self.rows(*right) == self.rows(*out), || "right and out differ in rows".into())?;
                self.wide(*out, 4 * self.cols(*right)?)
            }
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
                self.equal_cols(*question, *summary)?;
                self.equal_cols(*question, *lexical)?;
                self.equal_cols(*field, *option)?;
                self.i32s(*sequence, &[self.rows(*question)])?;
                self.i32s(*owner, &[self.rows(*option)])?;
                let options = [lexical, residual, out].map(|t| self.rows(*t));
                self.expect(options.iter().all(|r| *r == self.rows(*option)), || "options differ".into())?;
                self.expect(self.rows(*field) == self.rows(*question), || "questions differ".into())?;
                self.wide(*residual, 1)?;
                self.wide(*out, 1)?;
                [prior_scale, joint_scale, gate].into_iter().try_for_each(|w| self.weight(*w, &[]))
            }
            _ => Err("has no check".into()),
        }
    }

    fn row_op(&self, op: &RowOp) -> Check {
        let width = self.cols(op.x())?;
        match *op {
            RowOp::Copy { .. } => Ok(()),
            RowOp::RmsNorm { weight, .. } => self.weight(weight, &[width]),
            RowOp::GatedRmsNorm { x, gate, weight, .. } => {
                self.columns(gate, width)?;
                self.expect(self.rows(gate.tensor) == self.rows(x), || "x and gate differ in rows".into())?;
                let w = self.graph.weight(weight);
                self.expect(w.shape.len() == 1 && w.shape[0] > 0 && width % w.shape[0] == 0, || {
                    format!("weight {} is {:?}, a divisor of {width} is needed", w.name, w.shape)
                })
            }
            RowOp::SigmoidGate { x, gate } => {
                self.heads(gate)?;
                self.expect(self.rows(gate.tensor) == self.rows(x), || "x and gate differ in rows".into())?;
                self.expect(gate.count * gate.width == width, || "x and gate differ in width".into())
            }
        }
    }

    fn heads(&self, h: Heads) -> Check {
        let cols = self.cols(h.tensor)?;
        let last = h.start + h.count.saturating_sub(1) * h.stride + h.width;
        self.expect(h.count > 0 && h.stride >= h.width && last <= cols, || {
            format!("{} heads of {} do not fit {} ({cols} wide)", h.count, h.width, self.name(h.tensor))
        })
    }

    fn rotation(&self, rotation: Rotation, width: usize) -> Check {
        self.expect(rotation.group.is_none_or(|g| g.divides(width)), || {
            format!("{:?} is no rotation group for {width} columns", rotation.group)
        })
    }

    fn int8(&self, x: TensorId, codes: TensorId, scales: TensorId) -> Check {
        let (x, c, s) = (self.graph.tensor(x), self.graph.tensor(codes), self.graph.tensor(scales));
        self.expect(c.dtype == DType::I8 && c.shape == x.shape, || {
            format!("{} does not hold codes", c.name)
        })?;
        self.expect(s.dtype == DType::F32 && s.shape == x.shape[..1], || {
            format!("{} does not hold the scales", s.name)
        })
    }

    fn int8_product(
        &self,
        codes: TensorId,
        scales: TensorId,
        (weight, weight_scales, bias): (WeightId, WeightId, Option<WeightId>),
        n: usize,
    ) -> Check {
        self.int8(codes, codes, scales)?;
        let w = self.graph.weight(weight);
        self.expect(w.elements == Elements::Int8, || format!("weight {} does not hold INT8 codes", w.name))?;
        self.weight(weight_scales, &[n, 1])?;
        if let Some(bias) = bias {
            self.weight(bias, &[n])?;
        }
        self.product(codes, weight, n)
    }

    fn wide(&self, id: TensorId, width: usize) -> Check {
        let found = self.cols(id)?;
        self.expect(found == width, || format!("{} is {found} wide, {width} needed", self.name(id)))
    }

    fn sequence_offsets(&self, id: TensorId) -> Check {
        self.i32s(id, &[Dim::Offsets(Symbol::Sequences)])
    }

    /// One more offset than a tensor has rows.
    fn row_offsets(&self, offsets: TensorId, of: TensorId) -> Check {
        match self.rows(of) {
            Dim::Sym(symbol) => self.i32s(offsets, &[Dim::Offsets(symbol)]),
            other => Err(format!("{} has {other} rows, a run-time size is needed", self.name(of))),
        }
    }
}
