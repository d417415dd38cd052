//! Steps → dispatches, as data.

mod attention;
mod clef;
mod linear;
mod lstm;
mod norm;
mod rows;
mod score;

use dikast_core::graph::{Dim, Graph, RelativeBias, Sizes, Step, TensorId, WeightId};
use dikast_core::{Error, Result};

use crate::inputs::Inputs;
use crate::layout::{Layout, Place, Unrounded, stride};
use crate::placement::{Kind, Piece};
use crate::recipe::{Binding, Recipe, small};
use crate::resident::WgpuResident;
use crate::tiles::TileLimits;

/// Invocations of the elementwise shaders.
const LANES: u32 = 64;

/// Everything that a step is lowered with.
#[derive(Debug)]
pub(crate) struct Lowering<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) resident: &'a WgpuResident,
    pub(crate) capacity: &'a Sizes,
    pub(crate) layout: &'a Layout,
    pub(crate) unrounded: &'a Unrounded,
    pub(crate) inputs: &'a Inputs,
    pub(crate) constants: Constants,
    pub(crate) tiles: TileLimits,
    /// Whether products may multiply in f16.
    pub(crate) f16: bool,
    /// By tensor index, a bound of the magnitudes.
    pub(crate) bounds: Vec<f32>,
    /// Name of the device, for errors.
    pub(crate) device: &'a str,
}

/// Numbers that a plan adds to the inputs: the bucket of every distance of a relative bias.
#[derive(Debug)]
pub(crate) struct Constants {
    pub(crate) words: Vec<u32>,
    tables: Vec<(RelativeBias, u32, Binding)>,
    /// Words between aligned offsets.
    align: usize,
}

impl Constants {
    /// None yet; each will start at a multiple of `align` words.
    pub(crate) fn new(align: usize) -> Self {
        Self { words: Vec::new(), tables: Vec::new(), align: align.max(1) }
    }

    /// `bucket(d)` for distances `d` in `-reach..=reach`.
    fn buckets(&mut self, bias: RelativeBias, reach: u32) -> Binding {
        if let Some((_, _, binding)) = self.tables.iter().find(|(b, r, _)| (*b, *r) == (bias, reach)) {
            return *binding;
        }
        let start = self.words.len().next_multiple_of(self.align);
        self.words.resize(start, 0);
        let reach_i = i64::from(reach);
        self.words.extend((-reach_i..=reach_i).map(|d| bias.bucket(d) as u32));
        let bytes = ((self.words.len() - start) * 4) as u64;
        let binding = Binding::Constant { offset: start as u64 * 4, bytes };
        self.tables.push((bias, reach, binding));
        binding
    }
}

impl Lowering<'_> {
    pub(crate) fn step(&mut self, index: usize, step: &Step) -> Result<Vec<Recipe>> {
        match step {
            Step::Embed { .. } | Step::SelectRows { .. } | Step::Concat { .. } => rows::lower(self, step),
            Step::PoolSpans { .. } | Step::PoolText { .. } => rows::pool(self, step),
            Step::RmsNorm { .. }
            | Step::RmsNormQuantize { .. }
            | Step::Quantize { .. }
            | Step::LayerNorm { .. }
            | Step::L2Normalize { .. } => norm::lower(self, step),
            Step::Linear { .. }
            | Step::LinearGated { .. }
            | Step::QuantLinear { .. }
            | Step::QuantLinearGated { .. } => linear::lower(self, step),
            Step::Attention { .. } => attention::lower(self, step),
            Step::BiLstm { .. } => lstm::lower(self, index, step),
            Step::PairProduct { .. } | Step::HopfieldMix { .. } | Step::Dot { .. } | Step::Scale { .. } => {
                score::lower(self, step)
            }
            _ => clef::lower(self, index, step),
        }
    }

    /// Rows of a tensor.
    fn rows(&self, id: TensorId) -> Dim {
        self.graph.tensor(id).shape[0]
    }

    /// Columns of a matrix, 1 for a vector.
    fn columns(&self, id: TensorId) -> usize {
        self.graph.tensor(id).shape.iter().skip(1).map(|d| d.bind(self.capacity)).product()
    }

    /// Row stride of a matrix in elements.
    fn stride(&self, id: TensorId) -> Result<u32> {
        small(stride(self.columns(id)))
    }

    /// Row stride of a matrix in groups of four elements.
    fn stride4(&self, id: TensorId) -> Result<u32> {
        Ok(self.stride(id)? / 4)
    }

    fn place(&self, id: TensorId) -> Result<Place> {
        self.layout.tensors[id.index()]
            .ok_or_else(|| Error::Internal(format!("tensor {} has no place", self.graph.tensor(id).name)))
    }

    /// A step's output, or an input of reals.
    fn tensor(&self, id: TensorId) -> Result<Binding> {
        if self.graph.inputs().iter().any(|i| i.tensor == id) {
            return self.input(id);
        }
        self.place(id).map(Binding::Place)
    }

    fn input(&self, id: TensorId) -> Result<Binding> {
        self.inputs.tensor(self.graph, id)
    }

    /// A weight that one binding shows: vectors and small tables.
    fn whole(&self, id: WeightId) -> Result<Binding> {
        match self.resident.placed(id).pieces[..] {
            [piece] => Ok(Binding::Piece(piece)),
            _ => Err(self.unsplit(id)),
        }
    }

    fn unsplit(&self, id: WeightId) -> Error {
        let weight = self.graph.weight(id);
        Error::Unsupported {
            device: self.device.to_owned(),
            need: format!("{} {:?} in one storage binding", weight.name, weight.shape),
        }
    }

    /// The pieces of a matrix.
    fn pieces(&self, id: WeightId) -> Result<&[Piece]> {
        let placed = self.resident.placed(id);
        if placed.kind == Kind::Matrix {
            Ok(&placed.pieces)
        } else {
            let name = &self.graph.weight(id).name;
            Err(Error::Internal(format!("weight {name} is not a matrix on the device")))
        }
    }
}
