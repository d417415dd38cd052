//! A packed batch: the input tensors' contents.

use std::collections::BTreeMap;

use crate::graph::{InputKind, Sizes};
use crate::{Error, Result};

/// A packed batch: the input tensors' contents.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// Sizes of this batch.
    pub sizes: Sizes,
    integers: BTreeMap<InputKind, Vec<i32>>,
    reals: BTreeMap<InputKind, Vec<f32>>,
}

impl Batch {
    /// An empty batch of the given sizes.
    pub fn new(sizes: Sizes) -> Self {
        Self { sizes, ..Self::default() }
    }

    /// Sets an input of integers, row-major.
    pub fn set(&mut self, kind: InputKind, values: Vec<i32>) {
        self.integers.insert(kind, values);
    }

    /// Sets an input of reals, row-major.
    pub fn set_reals(&mut self, kind: InputKind, values: Vec<f32>) {
        self.reals.insert(kind, values);
    }

    /// An input of integers.
    ///
    /// # Errors
    /// [`Error::Internal`] when it is missing or not as long as its shape says.
    pub fn get(&self, kind: InputKind) -> Result<&[i32]> {
        let want: usize = kind.shape().iter().map(|d| d.bind(&self.sizes)).product();
        match self.integers.get(&kind) {
            Some(values) if values.len() == want => Ok(values),
            found => Err(wrong(kind, found.map(Vec::len), want)),
        }
    }

    /// An input of reals of which the graph wants `want`.
    ///
    /// # Errors
    /// [`Error::Internal`] when it is missing or of another length.
    pub fn get_reals(&self, kind: InputKind, want: usize) -> Result<&[f32]> {
        match self.reals.get(&kind) {
            Some(values) if values.len() == want => Ok(values),
            found => Err(wrong(kind, found.map(Vec::len), want)),
        }
    }
}

fn wrong(kind: InputKind, found: Option<usize>, want: usize) -> Error {
    Error::Internal(match found {
        Some(found) => format!("input {} has {found} values, {want} needed", kind.name()),
        None => format!("input {} is missing", kind.name()),
    })
}
