//! A model of which some matrices are codes already.

use std::collections::BTreeMap;

use dikast_core::Result;
use dikast_core::checkpoint::{Blob, Checks, Expected, ModelFiles, Recipe, StoredType, TensorSpec};
use dikast_core::models::clef::{Clef, ClefOptions};
use std::sync::Arc;

use crate::plan::{Plan, Scheme};
use crate::source::{Checkpoint, Coded, Rows, Source};
use crate::write::in_memory;

/// The source's tensors, some of them changed, some matrices as codes.
#[derive(Debug, Clone)]
pub(super) struct Partial {
    pub(super) base: Checkpoint,
    /// Tensors that are no longer the source's, and how they are stored.
    pub(super) changed: BTreeMap<String, (StoredType, Vec<f32>)>,
    /// Matrices of codes by module.
    pub(super) coded: BTreeMap<String, Coded>,
}

impl Source for Partial {
    fn open<'a>(&'a self, spec: &'a TensorSpec) -> Result<Box<dyn Rows + 'a>> {
        match self.changed.get(&spec.name) {
            Some((dtype, values)) => Ok(Box::new(Changed { dtype: *dtype, values })),
            None => self.base.open(spec),
        }
    }

    fn stays(&self, module: &str) -> bool {
        !self.coded.contains_key(module)
    }

    fn coded(&self, module: &str) -> Option<&Coded> {
        self.coded.get(module)
    }
}

impl Partial {
    /// A tensor's numbers as they are now.
    pub(super) fn values(&self, name: &str) -> Result<Vec<f32>> {
        match self.changed.get(name) {
            Some((_, values)) => Ok(values.clone()),
            None => Ok(self.base.0.tensor(name)?.to_f32()),
        }
    }

    /// The model as it is now.
    pub(super) fn model(&self, files: &ModelFiles, expected: &Expected, scheme: Scheme) -> Result<Clef> {
        let plan = Plan::new(expected, scheme, u64::MAX, self)?;
        let recipe = Recipe { name: "calibration".to_owned(), version: 1 };
        let weights = in_memory(&plan, &recipe, self)?;
        let small = files.names().filter(|n| !n.contains("safetensors") && *n != "SHA256SUMS");
        let small: Vec<(String, Blob)> =
            small.filter_map(|n| files.get(n).map(|blob| (n.to_owned(), blob.clone()))).collect();
        let weights = weights.into_iter().map(|(name, bytes)| (name, Blob::Owned(Arc::new(bytes))));
        let all = ModelFiles::from_memory(files.name(), small.into_iter().chain(weights));
        Clef::load_with(&all, ClefOptions { checks: Checks::HEADERS, ..ClefOptions::default() })
    }
}

/// A tensor in memory.
struct Changed<'a> {
    dtype: StoredType,
    values: &'a [f32],
}

impl Rows for Changed<'_> {
    fn dtype(&self) -> StoredType {
        self.dtype
    }

    fn row(&self, row: usize, out: &mut [f32]) {
        if let Some(values) = self.values.get(row * out.len()..(row + 1) * out.len()) {
            out.copy_from_slice(values);
        }
    }
}
