//! What a device must do: load weights, plan a graph for a bucket, run batches.
//!
//! Contract of every implementation:
//! * It executes the steps of the graph with their stated numeric contracts; [`crate::cpu`] is the definition.
//! * A row's result has the same bits whatever else is in the batch and whatever the bucket.
//! * Nothing blocks in [`Backend::load`] and [`Backend::plan`] longer than the work itself; [`Backend::run`] is the
//!   only await. Dispatch is static and no future has to be `Send`: a device belongs to one thread.
//! * Errors are typed: [`crate::Error::OutOfMemory`] before anything is uploaded, [`crate::Error::DeviceLost`] when
//!   the device went away, [`crate::Error::Unsupported`] for what it lacks.

mod batch;
mod checks;
mod planted;
mod prefix;
mod timing;

use std::collections::BTreeMap;
use std::future::{Future, ready};

pub use batch::Batch;
pub use checks::InputChecks;
pub use planted::Planted;
pub use prefix::Prefix;
pub use timing::{Ceilings, StepTime};

use crate::checkpoint::Weights;
use crate::graph::{Graph, Sizes, TensorId};
use crate::{Error, Result};

/// What a backend is and can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Backend name: `cpu`, `wgpu`, `cuda`.
    pub backend: String,
    /// Device name.
    pub device: String,
    /// Bytes of memory it may use for weights and activations; `None` when unknown.
    pub memory: Option<u64>,
    /// Features and limits for people, as name and value.
    pub details: Vec<(String, String)>,
}

/// Bytes that a graph needs on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryBudget {
    /// Weights on the device.
    pub device_weights: u64,
    /// Tables that stay on the host, memory-mapped where they come from a file.
    pub host_tables: u64,
    /// Inputs and activations of one batch in the bucket.
    pub activations: u64,
}

impl MemoryBudget {
    /// Bytes on the device.
    pub fn device(&self) -> u64 {
        self.device_weights.saturating_add(self.activations)
    }
}

/// Copies of chosen step outputs, widened to f32.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Taps {
    wanted: Vec<TensorId>,
    values: BTreeMap<TensorId, Vec<f32>>,
}

impl Taps {
    /// Tap nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Tap the named tensors.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a name the graph does not have.
    pub fn named(graph: &Graph, names: &[&str]) -> Result<Self> {
        let wanted = names
            .iter()
            .map(|n| {
                graph.find(n).ok_or_else(|| Error::invalid("tap", format!("the graph has no tensor {n}")))
            })
            .collect::<Result<_>>()?;
        Ok(Self { wanted, values: BTreeMap::new() })
    }

    /// Tap every step output.
    pub fn all(graph: &Graph) -> Self {
        Self { wanted: graph.steps().iter().flat_map(|s| s.outputs()).collect(), values: BTreeMap::new() }
    }

    /// Whether nothing is tapped.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Whether a tensor is tapped.
    pub fn wants(&self, id: TensorId) -> bool {
        self.wanted.contains(&id)
    }

    /// Tensors tapped.
    pub fn wanted(&self) -> &[TensorId] {
        &self.wanted
    }

    /// Stores a tapped tensor (for backends).
    pub fn put(&mut self, id: TensorId, values: Vec<f32>) {
        self.values.insert(id, values);
    }

    /// A tapped tensor after the run, row-major, E4M3 codes as their values.
    pub fn get(&self, id: TensorId) -> Option<&[f32]> {
        self.values.get(&id).map(Vec::as_slice)
    }
}

/// A device that executes graphs.
pub trait Backend {
    /// Weights on the device.
    type Resident;
    /// A graph made ready for all batches that fit a bucket.
    type Plan;
    /// What the rows of a sequence need of those before them, on the device: made by [`Backend::keep`].
    type Snapshot;

    /// What it is and can do.
    fn capabilities(&self) -> &Capabilities;

    /// Bytes needed, before anything is uploaded. `bucket` holds capacities.
    fn budget(&self, graph: &Graph, weights: &Weights, bucket: &Sizes) -> Result<MemoryBudget>;

    /// Uploads the weights of a graph. `progress` gets bytes done and bytes in all.
    fn load(
        &self,
        graph: &Graph,
        weights: &Weights,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self::Resident>;

    /// Makes a graph ready for every batch that fits `bucket`.
    fn plan(&self, graph: &Graph, resident: &Self::Resident, bucket: &Sizes) -> Result<Self::Plan>;

    /// The bucket in which a batch of these sizes should run; backends without buckets return the sizes.
    fn bucket(&self, sizes: &Sizes) -> Sizes {
        *sizes
    }

    /// Runs one batch: the output tensor, row-major, real rows only. Tapped tensors land in `taps`.
    fn run(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
        taps: &mut Taps,
    ) -> impl Future<Output = Result<Vec<f32>>>;

    /// Bytes of the snapshot of a sequence's first `rows` rows; `None` where the backend keeps none of this graph, or none
    /// of so many rows.
    fn snapshot_bytes(&self, graph: &Graph, rows: usize) -> Option<u64> {
        let _ = (graph, rows);
        None
    }

    /// [`Backend::plan`] for [`Backend::keep`] or [`Backend::run_after`].
    ///
    /// The default is [`Error::Unsupported`] but for [`Prefix::None`].
    fn plan_prefix(
        &self,
        graph: &Graph,
        resident: &Self::Resident,
        bucket: &Sizes,
        prefix: Prefix,
    ) -> Result<Self::Plan> {
        match prefix {
            Prefix::None => self.plan(graph, resident, bucket),
            _ => Err(lacking(self.capabilities(), "snapshots of states")),
        }
    }

    /// Runs the first rows of one sequence, a batch without labels, with a plan of [`Prefix::Keep`], and keeps what later
    /// rows need of them.
    ///
    /// The default is [`Error::Unsupported`].
    fn keep(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
    ) -> impl Future<Output = Result<Self::Snapshot>> {
        let _ = (plan, resident, batch);
        ready(Err(lacking(self.capabilities(), "snapshots of states")))
    }

    /// [`Backend::run`] with a plan of [`Prefix::After`]: each sequence of the batch goes on after the rows of its snapshot,
    /// where it has one. The result has the bits of a run over the whole sequences.
    ///
    /// The default is [`Error::Unsupported`].
    fn run_after(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
        snapshots: &[Option<&Self::Snapshot>],
    ) -> impl Future<Output = Result<Vec<f32>>> {
        let _ = (plan, resident, batch, snapshots);
        ready(Err(lacking(self.capabilities(), "snapshots of states")))
    }

    /// Runs one batch as [`Backend::run`] does and says how long each step took, in execution order; the logits are
    /// dropped. Where a device overlaps steps in `run`, here one ends before the next begins, so the sum may be more
    /// than the time of a run. A step that the backend does as part of another one has no entry of its own.
    ///
    /// The default is [`Error::Unsupported`].
    fn profile(
        &self,
        plan: &mut Self::Plan,
        resident: &Self::Resident,
        batch: &Batch,
    ) -> impl Future<Output = Result<Vec<StepTime>>> {
        let _ = (plan, resident, batch);
        ready(Err(lacking(self.capabilities(), "times of single steps")))
    }

    /// Measures what the device reaches at most, with the backend's own kernels; takes a few seconds and as
    /// much memory as that needs.
    ///
    /// The default is [`Error::Unsupported`].
    fn ceilings(&self) -> impl Future<Output = Result<Ceilings>> {
        ready(Err(lacking(self.capabilities(), "measured ceilings")))
    }
}

/// [`Error::Unsupported`] for something that a backend does not have.
fn lacking(capabilities: &Capabilities, need: &str) -> Error {
    Error::Unsupported { device: capabilities.backend.clone(), need: need.to_owned() }
}
