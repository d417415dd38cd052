//! The forward pass as data: a linear list of fused [`Step`]s over named tensors, in execution order.
//!
//! A [`Graph`] is built by ordinary functions (see [`crate::models`]), checked once when it is finished, printed
//! like a listing, and executed by a [`crate::backend::Backend`]. Sizes known only at run time are [`Symbol`]s,
//! bound per batch by [`Sizes`].

mod arena;
mod builder;
mod check;
mod cost;
mod dim;
mod display;
mod inputs;
mod operand;
mod operands;
mod step;
mod tensor;

pub use arena::ArenaLayout;
pub use builder::{DeltaHeads, GraphBuilder, JointScales, JointScore, Quantized};
pub use cost::Cost;
pub use dim::{Dim, Sizes, Symbol};
pub use operand::{
    Activation, Columns, Frequency, Heads, LstmDirection, Pool, RelativeBias, RotaryHeads, Rotation, RowOp,
};
pub use step::Step;
pub use tensor::{DType, Elements, Input, InputKind, Residency, Tensor, TensorId, Weight, WeightId};

use crate::{Error, Result};

/// A model's forward pass, checked. Made by [`GraphBuilder::finish`].
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    name: String,
    tensors: Vec<Tensor>,
    weights: Vec<Weight>,
    steps: Vec<Step>,
    inputs: Vec<Input>,
    output: TensorId,
}

impl Graph {
    /// The graph's name, for example `gliclass/mt5/cross-attn`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The steps in execution order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// All tensors; a [`TensorId`] indexes this list.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// All weights; a [`WeightId`] indexes this list.
    pub fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// A tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// A weight.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.index()]
    }

    /// The tensors that a batch brings along.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// What an input tensor holds.
    ///
    /// # Errors
    /// [`Error::Internal`] when the tensor is no input.
    pub fn input_kind(&self, id: TensorId) -> Result<InputKind> {
        self.inputs.iter().find(|i| i.tensor == id).map(|i| i.kind).ok_or_else(|| {
            Error::Internal(format!("{} holds indices but is no input of the graph", self.tensor(id).name))
        })
    }

    /// The logits.
    pub fn output(&self) -> TensorId {
        self.output
    }

    /// A tensor by name, for taps.
    pub fn find(&self, name: &str) -> Option<TensorId> {
        self.tensors.iter().position(|t| t.name == name).map(TensorId::new)
    }

    /// Elements of a tensor with the symbols bound; the largest number for more than can be counted.
    pub fn len(&self, id: TensorId, sizes: &Sizes) -> usize {
        self.tensor(id).shape.iter().map(|d| d.bind(sizes)).fold(1, usize::saturating_mul)
    }
}
