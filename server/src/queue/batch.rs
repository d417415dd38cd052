//! What runs together.

use std::ops::Range;
use std::sync::Arc;

use super::{Load, Work};

/// Sequences of one request in a batch.
pub(super) struct Slice<S> {
    pub(super) job: u64,
    pub(super) work: Arc<dyn Work<S>>,
    pub(super) range: Range<usize>,
    pub(super) tokens: usize,
}

/// A batch on its way to the device.
pub(crate) struct Taken<S> {
    pub(super) slices: Vec<Slice<S>>,
}

impl<S> Taken<S> {
    /// The sequences, request by request.
    pub(crate) fn sequences(&self) -> Vec<&S> {
        let mut all = Vec::new();
        for slice in &self.slices {
            all.extend(slice.work.sequences().into_iter().skip(slice.range.start).take(slice.range.len()));
        }
        all
    }

    /// Token rows.
    pub(crate) fn tokens(&self) -> usize {
        self.slices.iter().map(|slice| slice.tokens).sum()
    }

    /// Requests.
    pub(crate) fn requests(&self) -> usize {
        self.slices.len()
    }

    /// The same with one request each.
    pub(crate) fn apart(self) -> Vec<Self> {
        self.slices.into_iter().map(|slice| Self { slices: vec![slice] }).collect()
    }
}

/// Room that is left in a batch.
pub(super) struct Room {
    tokens: usize,
    outputs: usize,
    empty: bool,
}

impl Room {
    pub(super) fn new(batch_tokens: usize) -> Self {
        Self { tokens: batch_tokens, outputs: batch_tokens, empty: true }
    }

    /// How many of these fit; the first of an empty batch always does.
    pub(super) fn fit(&mut self, loads: &[Load]) -> usize {
        let mut fitting = 0;
        for load in loads {
            let fits = load.tokens <= self.tokens && load.outputs <= self.outputs;
            if !fits && !self.empty {
                break;
            }
            self.tokens = self.tokens.saturating_sub(load.tokens);
            self.outputs = self.outputs.saturating_sub(load.outputs);
            self.empty = false;
            fitting += 1;
        }
        fitting
    }

    /// Nothing fits any more.
    pub(super) fn is_used_up(&self) -> bool {
        self.tokens == 0 || self.outputs == 0
    }
}
