//! The reference backend: every [`Step`] in plain f32, which is also its definition; and the fallback where there is
//! no GPU.
//!
//! Weights are read in their stored form, straight from the mapped file; products widen them block by block.

mod activation;
mod attention;
mod causal;
#[cfg(feature = "native")]
mod ceilings;
mod conv;
mod delta;
mod gemm;
mod int8;
mod joint;
mod linear;
mod lstm;
mod norm;
mod parallel;
mod patches;
mod pool;
#[cfg(feature = "native")]
mod profile;
mod replay;
mod rotary;
mod rows;
mod score;
mod select;
mod store;

use std::future::{Future, ready};

use crate::backend::{Backend, Batch, Capabilities, MemoryBudget, Taps};
#[cfg(feature = "native")]
use crate::backend::{Ceilings, StepTime};
use crate::checkpoint::Weights;
use crate::graph::{Graph, Residency, Sizes, Step};
use crate::numerics::int8::Int8Rows;
use crate::{Error, Result};
pub use gemm::{Scalar, Strided};
pub use replay::replay;
use store::{Operands, Store};

/// The CPU.
#[derive(Debug, Clone)]
pub struct CpuBackend {
    capabilities: Capabilities,
}

/// The weights: the checkpoint itself, nothing is copied.
#[derive(Debug, Clone)]
pub struct CpuResident {
    weights: Weights,
}

/// A graph ready to run.
#[derive(Debug, Clone)]
pub struct CpuPlan {
    graph: Graph,
    /// Tensors whose last use is each step.
    free_after: Vec<Vec<usize>>,
}

impl CpuBackend {
    /// The CPU with as many threads as it has cores.
    pub fn new() -> Self {
        let capabilities = Capabilities {
            backend: "cpu".to_owned(),
            device: format!("{} threads", parallel::threads()),
            memory: None,
            details: Vec::new(),
        };
        Self { capabilities }
    }
}

impl Default for CpuBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for CpuBackend {
    type Resident = CpuResident;
    type Plan = CpuPlan;
    type Snapshot = ();

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn budget(&self, graph: &Graph, weights: &Weights, bucket: &Sizes) -> Result<MemoryBudget> {
        let mut budget = MemoryBudget { activations: graph.activation_bytes(bucket), ..Default::default() };
        for weight in graph.weights() {
            for part in &weight.parts {
                let bytes = weights.tensor(part)?.bytes.len() as u64;
                match weight.residency {
                    Residency::Device => budget.device_weights += bytes,
                    Residency::HostRows => budget.host_tables += bytes,
                }
            }
        }
        Ok(budget)
    }

    fn load(
        &self,
        graph: &Graph,
        weights: &Weights,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CpuResident> {
        // Fail now, not at the first request, if the graph names something the checkpoint lacks.
        for weight in graph.weights() {
            Operands::check(weights, weight)?;
        }
        progress(0, 0);
        Ok(CpuResident { weights: weights.clone() })
    }

    fn plan(&self, graph: &Graph, _resident: &CpuResident, _bucket: &Sizes) -> Result<CpuPlan> {
        let mut free_after = vec![Vec::new(); graph.steps().len() + 1];
        for (tensor, last) in graph.last_uses().into_iter().enumerate() {
            if let Some(step) = last {
                free_after[step].push(tensor);
            }
        }
        Ok(CpuPlan { graph: graph.clone(), free_after })
    }

    /// One plan serves every batch.
    fn bucket(&self, _sizes: &Sizes) -> Sizes {
        Sizes::default()
    }

    fn run(
        &self,
        plan: &mut CpuPlan,
        resident: &CpuResident,
        batch: &Batch,
        taps: &mut Taps,
    ) -> impl Future<Output = Result<Vec<f32>>> {
        ready(forward(plan, resident, batch, taps, &mut |_| {}))
    }

    /// Reads the clock after each step, the release of what it used last included. Not on wasm32, which has no clock.
    #[cfg(feature = "native")]
    fn profile(
        &self,
        plan: &mut CpuPlan,
        resident: &CpuResident,
        batch: &Batch,
    ) -> impl Future<Output = Result<Vec<StepTime>>> {
        ready(profile::profile(plan, resident, batch))
    }

    #[cfg(feature = "native")]
    fn ceilings(&self) -> impl Future<Output = Result<Ceilings>> {
        ready(Ok(ceilings::measure()))
    }
}

/// All steps in order; `done` gets the index of each step that is finished.
fn forward(
    plan: &CpuPlan,
    resident: &CpuResident,
    batch: &Batch,
    taps: &mut Taps,
    done: &mut dyn FnMut(usize),
) -> Result<Vec<f32>> {
    let graph = &plan.graph;
    let mut store = Store::new(graph, &batch.sizes);
    for input in graph.inputs() {
        store.put_input(input, batch)?;
    }
    for (index, step) in graph.steps().iter().enumerate() {
        let operands = Operands { graph, weights: &resident.weights, int8: Int8Rows::Codes };
        execute(step, &operands, &mut store)?;
        for id in step.outputs() {
            if taps.wants(id) {
                taps.put(id, store.widened(id)?);
            }
        }
        for &tensor in &plan.free_after[index] {
            store.free(tensor);
        }
        done(index);
    }
    store.take_f32(graph.output())
}

fn execute(step: &Step, operands: &Operands<'_>, store: &mut Store<'_>) -> Result<()> {
    match *step {
        Step::Embed { .. } | Step::SelectRows { .. } | Step::Concat { .. } => {
            select::run(step, operands, store)
        }
        Step::RmsNorm { .. }
        | Step::RmsNormQuantize { .. }
        | Step::Quantize { .. }
        | Step::LayerNorm { .. }
        | Step::L2Normalize { .. } => norm::run(step, operands, store),
        Step::Linear { .. }
        | Step::LinearGated { .. }
        | Step::QuantLinear { .. }
        | Step::QuantLinearGated { .. } => linear::run(step, operands, store),
        Step::Attention { .. } => attention::run(step, operands, store),
        Step::PoolSpans { .. } | Step::PoolText { .. } => pool::run(step, store),
        Step::BiLstm { .. } => lstm::run(step, operands, store),
        Step::PairProduct { .. } | Step::HopfieldMix { .. } | Step::Dot { .. } | Step::Scale { .. } => {
            score::run(step, operands, store)
        }
        Step::Rows { .. } | Step::RotateQuantize { .. } => rows::run(step, operands, store),
        Step::Int8Linear { .. } | Step::Int8LinearGated { .. } => int8::run(step, operands, store),
        Step::CausalConv { .. } => conv::run(step, operands, store),
        Step::GatedDelta { .. } => delta::run(step, operands, store),
        Step::HeadRotary { .. } => rotary::run(step, operands, store),
        Step::CausalAttention { .. } => causal::run(step, store),
        Step::AddPositions { .. } | Step::MergeRows { .. } | Step::ReplaceRows { .. } => {
            patches::run(step, operands, store)
        }
        Step::PoolTableRows { .. }
        | Step::SoftmaxPool { .. }
        | Step::Sum { .. }
        | Step::PairFeatures { .. }
        | Step::JointScore { .. } => joint::run(step, operands, store),
    }
}

/// A step handed to the wrong module: a fault of this program.
fn misrouted(step: &Step) -> Error {
    Error::Internal(format!("step {} was handed to the wrong kernel", step.name()))
}
