//! Load once, pack many requests into one batch, split the results.

mod clef;
mod model;
mod pack;
#[cfg(feature = "native")]
mod packer;
#[cfg(feature = "native")]
mod queue;
mod states;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

pub use clef::ClefSequence;
pub use model::Model;
pub use pack::{pack, sizes};
#[cfg(feature = "native")]
pub use packer::{Logits, Packer, Pending, WAITING};
#[cfg(feature = "native")]
pub use queue::{Queue, Reply};
pub use states::StateCacheUse;

use crate::answers::{Classification, Receipt};
use crate::backend::{Backend, Batch, MemoryBudget, StepTime, Taps};
use crate::checkpoint::ModelFiles;
use crate::graph::{Graph, Sizes};
use crate::models::gliclass::GliClass;
use crate::request::ClassifyRequest;
use crate::tokens::Sequence;
use crate::tokens::gliclass::{Prepared, prepare};
use crate::{Error, Result, answers};

/// Limits and sizes of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// Token limit of one sequence unless a request says less; the reference pipeline's default is 1024.
    pub max_tokens: usize,
    /// Most packed tokens, and most packed classes, of one forward pass; a longer sequence runs alone.
    pub batch_tokens: usize,
    /// Bytes of device memory for what is kept of CLEF states, so that later questions on the same state cost only their
    /// own tokens; 0, the default, keeps nothing. Answers have the same bits with and without.
    pub state_cache: u64,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { max_tokens: 1024, batch_tokens: 4096, state_cache: 0 }
    }
}

/// A model on a device.
#[derive(Debug)]
pub struct Engine<B: Backend, M: Model = GliClass> {
    backend: B,
    model: Arc<M>,
    resident: B::Resident,
    plans: HashMap<Sizes, B::Plan>,
    states: states::States<B>,
    options: EngineOptions,
}

impl<B: Backend, M: Model> Engine<B, M> {
    /// Puts a model onto a device. `progress` gets bytes done and bytes in all.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] before anything is uploaded, [`Error::Unsupported`] for what the device lacks.
    pub fn with_model(
        backend: B,
        model: M,
        options: EngineOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        Self::with_shared_model(backend, Arc::new(model), options, progress)
    }

    /// The same with a model that others hold too.
    ///
    /// # Errors
    /// As [`Engine::with_model`].
    pub fn with_shared_model(
        backend: B,
        model: Arc<M>,
        options: EngineOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let capabilities = backend.capabilities();
        let bucket = full_bucket(&backend, &*model, &options);
        let needed = backend.budget(model.graph(), model.weights(), &bucket)?.device();
        let needed = needed.saturating_add(options.state_cache);
        if let Some(available) = capabilities.memory.filter(|&m| m < needed) {
            return Err(Error::OutOfMemory { device: capabilities.device.clone(), needed, available });
        }
        let resident = backend.load(model.graph(), model.weights(), progress)?;
        Ok(Self {
            backend,
            model,
            resident,
            plans: HashMap::new(),
            states: states::States::default(),
            options,
        })
    }

    /// Puts the model onto a new device: the way back after [`Error::DeviceLost`].
    ///
    /// # Errors
    /// As [`Backend::load`]; the engine then keeps its old device.
    pub fn replace_backend(&mut self, backend: B) -> Result<()> {
        let resident = backend.load(self.model.graph(), self.model.weights(), &mut |_, _| {})?;
        // Plans and weights of the old device go before the device itself.
        self.states.clear();
        self.plans.clear();
        self.resident = resident;
        self.backend = backend;
        Ok(())
    }

    /// The device.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The model's forward pass.
    pub fn graph(&self) -> &Graph {
        self.model.graph()
    }

    /// The limits.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Bytes needed for a full batch.
    ///
    /// # Errors
    /// As [`Backend::budget`].
    pub fn budget(&self) -> Result<MemoryBudget> {
        let bucket = full_bucket(&self.backend, &*self.model, &self.options);
        self.backend.budget(self.graph(), self.model.weights(), &bucket)
    }

    /// Logits of each sequence, one per class.
    ///
    /// # Errors
    /// As [`Backend::run`].
    pub async fn logits(&mut self, sequences: &[&M::Sequence]) -> Result<Vec<Vec<f32>>> {
        let mut logits = Vec::with_capacity(sequences.len());
        let mut rest = sequences;
        while !rest.is_empty() {
            let (batch, tail) = rest.split_at(batch_len::<M>(rest, self.options.batch_tokens));
            logits.extend(self.run(batch, &mut Taps::none()).await?);
            rest = tail;
        }
        Ok(logits)
    }

    /// One forward pass over all sequences in one batch, with taps.
    ///
    /// # Errors
    /// As [`Backend::run`].
    pub async fn run(&mut self, sequences: &[&M::Sequence], taps: &mut Taps) -> Result<Vec<Vec<f32>>> {
        let batch = self.pack(sequences)?;
        let flat = self.forward(&batch, taps).await?;
        let mut rest = flat.as_slice();
        Ok(sequences
            .iter()
            .map(|s| {
                let (own, tail) = rest.split_at(M::outputs(s));
                rest = tail;
                own.to_vec()
            })
            .collect())
    }

    /// All sequences as one batch of this model.
    ///
    /// # Errors
    /// As [`Model::pack`].
    pub fn pack(&self, sequences: &[&M::Sequence]) -> Result<Batch> {
        self.model.pack(sequences)
    }

    /// One forward pass over a batch made by [`Engine::pack`]: the logits of all sequences, one after the other.
    ///
    /// # Errors
    /// As [`Backend::run`].
    pub async fn forward(&mut self, batch: &Batch, taps: &mut Taps) -> Result<Vec<f32>> {
        let plan = planned(&self.backend, &*self.model, &self.resident, &mut self.plans, &batch.sizes)?;
        let flat = self.backend.run(plan, &self.resident, batch, taps).await?;
        if flat.len() != batch.sizes.labels {
            return Err(Error::Internal(format!("{} logits for {} labels", flat.len(), batch.sizes.labels)));
        }
        Ok(flat)
    }

    /// The time of each step of one forward pass.
    ///
    /// # Errors
    /// As [`Backend::profile`].
    pub async fn profile(&mut self, batch: &Batch) -> Result<Vec<StepTime>> {
        let plan = planned(&self.backend, &*self.model, &self.resident, &mut self.plans, &batch.sizes)?;
        self.backend.profile(plan, &self.resident, batch).await
    }
}

impl<B: Backend> Engine<B> {
    /// Loads a model from its files onto a device.
    ///
    /// # Errors
    /// As [`GliClass::load`] and [`Engine::with_model`].
    pub fn load(backend: B, files: &ModelFiles, options: EngineOptions) -> Result<Self> {
        Self::with_model(backend, GliClass::load(files)?, options, &mut |_, _| {})
    }

    /// Answers each request, in order; a bad request does not disturb the others.
    ///
    /// The answer to a request has the same bits whatever else is in the call.
    pub async fn classify(&mut self, requests: &[ClassifyRequest]) -> Vec<Result<Classification>> {
        let prepared: Vec<Result<Prepared>> = requests.iter().map(|r| self.prepare(r)).collect();
        let sequences: Vec<&Sequence> = prepared.iter().flatten().flat_map(|p| &p.sequences).collect();
        let mut logits = match self.logits(&sequences).await {
            Ok(logits) => logits.into_iter(),
            Err(e) => return prepared.into_iter().map(|p| p.and(Err(e.clone()))).collect(),
        };
        requests
            .iter()
            .zip(&prepared)
            .map(|(request, prepared)| {
                let prepared = prepared.as_ref().map_err(Clone::clone)?;
                let logits: Vec<Vec<f32>> = logits.by_ref().take(prepared.sequences.len()).collect();
                answers::assemble(request, prepared, &logits, self.receipt(prepared))
            })
            .collect()
    }

    /// The host's half of a request: validation, tokens, positions.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] or [`Error::TooLarge`].
    pub fn prepare(&self, request: &ClassifyRequest) -> Result<Prepared> {
        prepare(self.model.config(), self.model.tokenizer(), request, self.options.max_tokens)
    }

    fn receipt(&self, prepared: &Prepared) -> Receipt {
        receipt(&self.model, &self.backend.capabilities().backend, prepared)
    }
}

/// What an answer says of the model and of the request's tokens.
fn receipt(model: &GliClass, backend: &str, prepared: &Prepared) -> Receipt {
    Receipt {
        model: model.name().to_owned(),
        checkpoint_digest: None,
        backend: backend.to_owned(),
        quantization: model.format(),
        tokens: prepared.tokens,
        dropped_text_tokens: prepared.dropped_text_tokens,
        cut_labels: prepared.cut_labels.clone(),
    }
}

/// The plan of the bucket in which a batch of these sizes runs, made at its first use.
fn planned<'a, B: Backend, M: Model>(
    backend: &B,
    model: &M,
    resident: &B::Resident,
    plans: &'a mut HashMap<Sizes, B::Plan>,
    sizes: &Sizes,
) -> Result<&'a mut B::Plan> {
    let bucket = backend.bucket(sizes);
    match plans.entry(bucket) {
        Entry::Occupied(made) => Ok(made.into_mut()),
        Entry::Vacant(place) => Ok(place.insert(backend.plan(model.graph(), resident, &bucket)?)),
    }
}

/// How many of the next sequences go into one batch: as many as fit the budget, at least one. A model with a fixed
/// number of classes computes all of them for each sequence, so they are counted like tokens.
fn batch_len<M: Model>(sequences: &[&M::Sequence], budget: usize) -> usize {
    let (mut tokens, mut classes) = (0, 0);
    let fitting = sequences.iter().take_while(|s| {
        tokens += M::load(s);
        classes += M::outputs(s);
        tokens.max(classes) <= budget
    });
    fitting.count().max(1)
}

/// The bucket of a full batch of ordinary requests, for memory budgets.
fn full_bucket<B: Backend, M: Model>(backend: &B, model: &M, options: &EngineOptions) -> Sizes {
    let full = model.full(options.batch_tokens.max(options.max_tokens));
    // Where one plan serves every batch, its bucket says nothing about sizes.
    backend.bucket(&full).max(&full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Span;

    #[test]
    fn a_batch_is_limited_in_tokens_and_in_classes() {
        let sequence = |tokens, classes| Sequence {
            ids: vec![0; tokens],
            attended: 0,
            segments: Vec::new(),
            classes: vec![Span::default(); classes],
            text: Span::default(),
            text_padding: 0,
            dropped_text_tokens: 0,
        };
        let fitting = |tokens, classes| {
            let same = sequence(tokens, classes);
            batch_len::<GliClass>(&[&same; 9], 100)
        };
        assert_eq!(fitting(25, 1), 4);
        assert_eq!(fitting(5, 50), 2);
        assert_eq!((fitting(101, 1), fitting(1, 101)), (1, 1));
    }
}
