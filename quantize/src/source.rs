//! Where the numbers of a new checkpoint come from.

use dikast_core::Result;
use dikast_core::checkpoint::{StoredType, TensorSpec, Weights};

/// Tensors by name.
pub trait Source: Sync {
    /// A tensor of the model.
    ///
    /// # Errors
    /// When there is none of that name.
    fn open<'a>(&'a self, spec: &'a TensorSpec) -> Result<Box<dyn Rows + 'a>>;
}

/// One tensor, row by row: rows of the first dimension, or a scalar or vector as one row.
pub trait Rows: Sync {
    /// How it is stored where it is not quantized: F32, F16 or BF16.
    fn dtype(&self) -> StoredType;

    /// Writes a row's numbers into `out`, which is as long as a row.
    fn row(&self, row: usize, out: &mut [f32]);

    /// Called once after the last row: nothing of the tensor need stay in memory.
    fn done(&self) {}
}

/// Rows and their length, as [`Rows`] counts them.
pub(crate) fn rows_of(shape: &[usize]) -> (usize, usize) {
    match shape {
        [] => (1, 1),
        [width] => (1, *width),
        [rows, rest @ ..] => (*rows, rest.iter().product()),
    }
}

/// The tensors of a checkpoint.
#[derive(Debug, Clone)]
pub struct Checkpoint(pub Weights);

impl Source for Checkpoint {
    fn open<'a>(&'a self, spec: &'a TensorSpec) -> Result<Box<dyn Rows + 'a>> {
        let view = self.0.tensor(&spec.name)?;
        Ok(Box::new(Stored {
            dtype: view.dtype,
            name: &spec.name,
            weights: &self.0,
            flat: spec.shape.len() < 2,
        }))
    }
}

/// One tensor of a checkpoint.
struct Stored<'a> {
    dtype: StoredType,
    name: &'a str,
    weights: &'a Weights,
    /// Scalars and vectors are one row.
    flat: bool,
}

impl Rows for Stored<'_> {
    fn dtype(&self) -> StoredType {
        self.dtype
    }

    fn row(&self, row: usize, out: &mut [f32]) {
        // Opened before, so it is there.
        let Some(view) = self.weights.find(self.name) else { return };
        let rows = if self.flat { 0..out.len() } else { row..row + 1 };
        let shape = [usize::MAX];
        let view =
            if self.flat { dikast_core::checkpoint::TensorView { shape: &shape, ..view } } else { view };
        view.decode_rows(rows, out);
    }

    fn done(&self) {
        self.weights.release(self.name);
    }
}
