//! What the engine needs of a model family.

use crate::Result;
use crate::backend::Batch;
use crate::checkpoint::Weights;
use crate::graph::{Graph, Sizes};
use crate::models::gliclass::GliClass;
use crate::tokens::Sequence;
use crate::{engine, heads};

/// A model on the host: its graph, its weights, and how its sequences become a batch.
pub trait Model {
    /// One packed item: what a request, or a part of one, becomes.
    type Sequence;

    /// The forward pass.
    fn graph(&self) -> &Graph;

    /// The weights.
    fn weights(&self) -> &Weights;

    /// All sequences as one batch.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] when row numbers do not fit 32 bits.
    fn pack(&self, sequences: &[&Self::Sequence]) -> Result<Batch>;

    /// Logits of a sequence.
    fn outputs(sequence: &Self::Sequence) -> usize;

    /// What a sequence takes of a batch's budget, in token rows.
    fn load(sequence: &Self::Sequence) -> usize;

    /// Sizes of a full batch of ordinary requests of `tokens` rows, for memory budgets.
    fn full(&self, tokens: usize) -> Sizes;
}

impl Model for GliClass {
    type Sequence = Sequence;

    fn graph(&self) -> &Graph {
        self.graph()
    }

    fn weights(&self) -> &Weights {
        self.weights()
    }

    fn pack(&self, sequences: &[&Sequence]) -> Result<Batch> {
        engine::pack(self.graph(), sequences, heads::selects_text_rows(self.config()))
    }

    fn outputs(sequence: &Sequence) -> usize {
        sequence.classes.len()
    }

    fn load(sequence: &Sequence) -> usize {
        sequence.ids.len()
    }

    fn full(&self, tokens: usize) -> Sizes {
        Sizes {
            tokens,
            sequences: tokens.div_ceil(64),
            labels: tokens.div_ceil(16),
            text_tokens: tokens,
            ..Sizes::default()
        }
    }
}
