//! How far a model's blocks are from the reference's.
//!
//! *Accumulated*: what a block of the candidate gives in its own forward pass against the reference's. *Local*: what it
//! gives on the reference's input, computed by the definitions of its steps on the host, against the same. A damaged
//! block shows in the local drift at its own place, in the accumulated drift from there on.

use std::collections::BTreeMap;
use std::ops::Range;

use dikast_core::Result;
use dikast_core::backend::{Batch, Taps};
use dikast_core::checkpoint::Weights;
use dikast_core::cpu::replay;
use dikast_core::graph::{Graph, TensorId};
use dikast_core::numerics::int8::Int8Rows;
use serde::Serialize;

use crate::metrics::relative_l2;

/// The blocks of a model's decoder or encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks(Vec<Block>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    name: String,
    input: TensorId,
    output: TensorId,
    /// The steps from one to the other.
    steps: Range<usize>,
}

/// What was found of one block.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockDrift {
    /// Its name in the graph.
    pub block: String,
    /// Mean relative distance with the reference's input.
    pub local: Option<f64>,
    /// Mean relative distance in the whole forward pass.
    pub accumulated: f64,
}

impl Blocks {
    /// The blocks of a graph; none where it has no blocks of the known names.
    pub fn of(graph: &Graph) -> Self {
        let writer = |id: TensorId| graph.steps().iter().position(|s| s.outputs().contains(&id));
        let mut blocks = Vec::new();
        for kind in ["layer", "block"] {
            let Some(mut input) = graph.find("input").or_else(|| graph.find("embed")) else { continue };
            for i in 0.. {
                let name = format!("{kind}.{i}");
                let Some(output) = graph.find(&format!("{name}.out")) else { break };
                let (Some(first), Some(last)) = (writer(input), writer(output)) else { break };
                blocks.push(Block { name, input, output, steps: first + 1..last + 1 });
                input = output;
            }
        }
        Self(blocks)
    }

    /// No blocks.
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    /// The tensors to tap: the input of the first block and the output of each.
    pub fn tensors(&self) -> Vec<TensorId> {
        let first = self.0.first().map(|b| b.input);
        first.into_iter().chain(self.0.iter().map(|b| b.output)).collect()
    }

    /// Name, input and output of a block.
    pub fn get(&self, place: usize) -> Option<(&str, TensorId, TensorId)> {
        self.0.get(place).map(|b| (b.name.as_str(), b.input, b.output))
    }

    /// Every tensor that a block's steps give on an input, by the definitions of the steps; `None` where there is no such
    /// block, or one that reads what lies outside of it.
    ///
    /// # Errors
    /// As [`replay`].
    pub fn replay(
        &self,
        place: usize,
        (graph, weights): (&Graph, &Weights),
        batch: &Batch,
        input: &[f32],
    ) -> Result<Option<BTreeMap<TensorId, Vec<f32>>>> {
        match self.0.get(place) {
            Some(block) => run(block, graph, weights, batch, input),
            None => Ok(None),
        }
    }

    /// Whether both graphs have the same blocks, of the same widths.
    pub fn alike(&self, graph: &Graph, other: &Self, other_graph: &Graph) -> bool {
        let shape = |graph: &Graph, id: TensorId| graph.tensor(id).shape.clone();
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(&other.0)
                .all(|(a, b)| a.name == b.name && shape(graph, a.output) == shape(other_graph, b.output))
    }

    /// Blocks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Sums over examples.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    local: Vec<(f64, u64)>,
    accumulated: Vec<(f64, u64)>,
}

impl Sums {
    /// Adds one example: the same batch through both models, their taps.
    pub(crate) fn add(
        &mut self,
        (blocks, graph, weights): (&Blocks, &Graph, &Weights),
        reference_blocks: &Blocks,
        batch: &Batch,
        candidate: &Taps,
        reference: &Taps,
    ) -> Result<()> {
        self.local.resize(blocks.len(), (0.0, 0));
        self.accumulated.resize(blocks.len(), (0.0, 0));
        for (i, (own, other)) in blocks.0.iter().zip(&reference_blocks.0).enumerate() {
            let Some(wanted) = reference.get(other.output) else { continue };
            if let Some(found) = candidate.get(own.output).filter(|f| f.len() == wanted.len()) {
                self.accumulated[i].0 += relative_l2(found, wanted);
                self.accumulated[i].1 += 1;
            }
            let Some(input) = reference.get(other.input) else { continue };
            if let Some(found) = on(own, graph, weights, batch, input)?.filter(|f| f.len() == wanted.len()) {
                self.local[i].0 += relative_l2(&found, wanted);
                self.local[i].1 += 1;
            }
        }
        Ok(())
    }

    /// The means.
    pub(crate) fn finish(self, blocks: &Blocks) -> Vec<BlockDrift> {
        let mean = |(sum, count): (f64, u64)| (count > 0).then(|| sum / count as f64);
        let sums = blocks.0.iter().zip(self.local).zip(self.accumulated);
        sums.filter_map(|((block, local), accumulated)| {
            let (local, accumulated) = (mean(local), mean(accumulated)?);
            Some(BlockDrift { block: block.name.clone(), local, accumulated })
        })
        .collect()
    }
}

/// What a block gives on an input; `None` where its steps read what lies outside.
fn on(
    block: &Block,
    graph: &Graph,
    weights: &Weights,
    batch: &Batch,
    input: &[f32],
) -> Result<Option<Vec<f32>>> {
    Ok(run(block, graph, weights, batch, input)?.and_then(|mut made| made.remove(&block.output)))
}

/// Every tensor that a block's steps give on an input.
fn run(
    block: &Block,
    graph: &Graph,
    weights: &Weights,
    batch: &Batch,
    input: &[f32],
) -> Result<Option<BTreeMap<TensorId, Vec<f32>>>> {
    let mut made: BTreeMap<TensorId, Vec<f32>> = BTreeMap::new();
    made.insert(block.input, input.to_vec());
    for index in block.steps.clone() {
        let Some(outputs) =
            replay(graph, weights, batch, index, Int8Rows::Codes, |id| made.get(&id).cloned())?
        else {
            return Ok(None);
        };
        made.extend(graph.steps()[index].outputs().into_iter().zip(outputs));
    }
    Ok(Some(made))
}
