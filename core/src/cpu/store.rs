//! The activations of one run, and the weights by id.

use crate::backend::Batch;
use crate::checkpoint::{StoredType, TensorView, Weights};
use crate::graph::{DType, Elements, Graph, Input, Sizes, TensorId, Weight, WeightId};
use crate::numerics::e4m3;
use crate::numerics::int8::Int8Rows;
use crate::{Error, Result};

/// Contents of one tensor.
#[derive(Debug)]
enum Buffer {
    F32(Vec<f32>),
    I32(Vec<i32>),
    Codes(Vec<u8>),
    Int8(Vec<i8>),
}

/// The tensors that are alive.
#[derive(Debug)]
pub(super) struct Store<'a> {
    graph: &'a Graph,
    sizes: &'a Sizes,
    buffers: Vec<Option<Buffer>>,
}

impl<'a> Store<'a> {
    pub(super) fn new(graph: &'a Graph, sizes: &'a Sizes) -> Self {
        Self { graph, sizes, buffers: graph.tensors().iter().map(|_| None).collect() }
    }

    /// Rows of a matrix in this batch.
    pub(super) fn rows(&self, id: TensorId) -> usize {
        self.graph.tensor(id).shape[0].bind(self.sizes)
    }

    /// Columns of a matrix, 1 for a vector.
    pub(super) fn cols(&self, id: TensorId) -> usize {
        self.graph.tensor(id).shape.iter().skip(1).map(|d| d.bind(self.sizes)).product()
    }

    /// A zeroed buffer of a tensor's length.
    pub(super) fn zeros(&self, id: TensorId) -> Vec<f32> {
        vec![0.0; self.graph.len(id, self.sizes)]
    }

    pub(super) fn f32(&self, id: TensorId) -> Result<&[f32]> {
        match &self.buffers[id.index()] {
            Some(Buffer::F32(v)) => Ok(v),
            _ => Err(self.missing(id)),
        }
    }

    pub(super) fn i32(&self, id: TensorId) -> Result<&[i32]> {
        match &self.buffers[id.index()] {
            Some(Buffer::I32(v)) => Ok(v),
            _ => Err(self.missing(id)),
        }
    }

    pub(super) fn codes(&self, id: TensorId) -> Result<&[u8]> {
        match &self.buffers[id.index()] {
            Some(Buffer::Codes(v)) => Ok(v),
            _ => Err(self.missing(id)),
        }
    }

    pub(super) fn int8(&self, id: TensorId) -> Result<&[i8]> {
        match &self.buffers[id.index()] {
            Some(Buffer::Int8(v)) => Ok(v),
            _ => Err(self.missing(id)),
        }
    }

    pub(super) fn put_f32(&mut self, id: TensorId, values: Vec<f32>) {
        debug_assert_eq!(values.len(), self.graph.len(id, self.sizes));
        self.buffers[id.index()] = Some(Buffer::F32(values));
    }

    pub(super) fn put_i32(&mut self, id: TensorId, values: Vec<i32>) {
        self.buffers[id.index()] = Some(Buffer::I32(values));
    }

    /// An input of the graph, from the batch.
    pub(super) fn put_input(&mut self, input: &Input, batch: &Batch) -> Result<()> {
        if input.kind.dtype() == DType::F32 {
            let want = self.graph.len(input.tensor, self.sizes);
            self.put_f32(input.tensor, batch.get_reals(input.kind, want)?.to_vec());
        } else {
            self.put_i32(input.tensor, batch.get(input.kind)?.to_vec());
        }
        Ok(())
    }

    pub(super) fn put_codes(&mut self, id: TensorId, values: Vec<u8>) {
        self.buffers[id.index()] = Some(Buffer::Codes(values));
    }

    pub(super) fn put_int8(&mut self, id: TensorId, values: Vec<i8>) {
        self.buffers[id.index()] = Some(Buffer::Int8(values));
    }

    pub(super) fn take_f32(&mut self, id: TensorId) -> Result<Vec<f32>> {
        match self.buffers[id.index()].take() {
            Some(Buffer::F32(v)) => Ok(v),
            _ => Err(self.missing(id)),
        }
    }

    pub(super) fn free(&mut self, index: usize) {
        self.buffers[index] = None;
    }

    /// A tensor's values for a tap.
    pub(super) fn widened(&self, id: TensorId) -> Result<Vec<f32>> {
        match &self.buffers[id.index()] {
            Some(Buffer::F32(v)) => Ok(v.clone()),
            Some(Buffer::I32(v)) => Ok(v.iter().map(|&x| x as f32).collect()),
            Some(Buffer::Codes(v)) => Ok(v.iter().map(|&c| e4m3::decode(c)).collect()),
            Some(Buffer::Int8(v)) => Ok(v.iter().map(|&c| f32::from(c)).collect()),
            None => Err(self.missing(id)),
        }
    }

    /// A list of rows, each checked to be in `0..limit`.
    pub(super) fn indices(&self, id: TensorId, limit: usize) -> Result<Vec<usize>> {
        self.i32(id)?
            .iter()
            .map(|&i| usize::try_from(i).ok().filter(|&i| i < limit))
            .collect::<Option<_>>()
            .ok_or_else(|| {
                Error::Internal(format!("{}: a value is not in 0..{limit}", self.graph.tensor(id).name))
            })
    }

    /// Offsets of packed rows: ascending from 0 to `rows`.
    pub(super) fn offsets(&self, id: TensorId, rows: usize) -> Result<Vec<usize>> {
        let offsets = self.indices(id, rows + 1)?;
        let ascending = offsets.windows(2).all(|w| w[0] <= w[1]);
        if ascending && offsets.first() == Some(&0) && offsets.last() == Some(&rows) {
            Ok(offsets)
        } else {
            Err(Error::Internal(format!("{}: not ascending from 0 to {rows}", self.graph.tensor(id).name)))
        }
    }

    fn missing(&self, id: TensorId) -> Error {
        Error::Internal(format!("tensor {} is not there or has another type", self.graph.tensor(id).name))
    }
}

/// The weights of a graph by id, and how its steps are to be taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operands<'a> {
    pub(super) graph: &'a Graph,
    pub(super) weights: &'a Weights,
    pub(super) int8: Int8Rows,
}

impl<'a> Operands<'a> {
    /// The stored tensors of a weight, stacked along their first dimension.
    pub(super) fn parts(&self, id: WeightId) -> Result<Vec<TensorView<'a>>> {
        self.graph.weight(id).parts.iter().map(|p| self.weights.tensor(p)).collect()
    }

    /// The whole weight widened; for vectors and small tables.
    pub(super) fn vector(&self, id: WeightId) -> Result<Vec<f32>> {
        Ok(self.parts(id)?.iter().flat_map(TensorView::to_f32).collect())
    }

    /// Checks that the checkpoint holds a weight as the graph says.
    pub(super) fn check(weights: &Weights, weight: &Weight) -> Result<()> {
        let mut rows = 0;
        for part in &weight.parts {
            let view = weights.tensor(part)?;
            rows += view.shape.first().copied().unwrap_or(1);
            let elements = match view.dtype {
                StoredType::F8E4M3 => Elements::E4M3,
                StoredType::I8 => Elements::Int8,
                StoredType::F32 | StoredType::F16 | StoredType::BF16 => Elements::Real,
            };
            if !fits(view.shape, &weight.shape) || elements != weight.elements {
                return Err(Error::checkpoint(
                    part,
                    format!(
                        "{:?} {:?} does not fit {} {:?}",
                        view.dtype, view.shape, weight.name, weight.shape
                    ),
                ));
            }
        }
        if rows == weight.shape.first().copied().unwrap_or(1) {
            Ok(())
        } else {
            Err(Error::checkpoint(&weight.name, format!("{rows} rows found, {:?} needed", weight.shape)))
        }
    }
}

/// Whether a part's rows are as wide as the whole's: a vector of scales may have a second dimension of one, and a
/// convolution's kernel is read as one row a filter.
fn fits(part: &[usize], whole: &[usize]) -> bool {
    let row = |shape: &[usize]| shape.iter().skip(1).product::<usize>();
    row(part) == row(whole) && part.is_empty() == whole.is_empty()
}
