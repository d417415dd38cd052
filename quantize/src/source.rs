//! Where the numbers of a new checkpoint come from.

use dikast_core::checkpoint::{StoredType, TensorSpec, TensorView, Weights};
use dikast_core::numerics::e4m3;
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::dequantize_row;
use dikast_core::{Error, Result};

/// Tensors by name.
pub trait Source: Sync {
    /// A tensor of the model.
    ///
    /// # Errors
    /// When there is none of that name.
    fn open<'a>(&'a self, spec: &'a TensorSpec) -> Result<Box<dyn Rows + 'a>>;

    /// Whether a module is not to be quantized although the scheme is for it.
    fn stays(&self, module: &str) -> bool {
        let _ = module;
        false
    }

    /// The codes of a module that somebody has found already; `None` where they are to be found from the numbers.
    fn coded(&self, module: &str) -> Option<&Coded> {
        let _ = module;
        None
    }
}

/// A matrix of INT8 codes in the rotated basis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Coded {
    /// Codes, row-major.
    pub codes: Vec<i8>,
    /// The scale of each row.
    pub scales: Vec<f32>,
    /// What is added to each row's products.
    pub bias: Option<Vec<f32>>,
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
        let view = if self.flat { TensorView { shape: &shape, ..view } } else { view };
        view.decode_rows(rows, out);
    }

    fn done(&self) {
        self.weights.release(self.name);
    }
}

/// The tensors of a checkpoint whose large matrices may be codes already: those are read as the numbers that they stand
/// for, and stored as BF16 where they are not quantized again.
#[derive(Debug, Clone)]
pub struct Dequantized(pub Weights);

impl Source for Dequantized {
    fn open<'a>(&'a self, spec: &'a TensorSpec) -> Result<Box<dyn Rows + 'a>> {
        let view = self.0.tensor(&spec.name)?;
        let module = spec.name.strip_suffix(".weight").unwrap_or_default();
        if !matches!(view.dtype, StoredType::I8 | StoredType::F8E4M3) {
            let (dtype, flat) = (view.dtype, spec.shape.len() < 2);
            return Ok(Box::new(Stored { dtype, name: &spec.name, weights: &self.0, flat }));
        }
        let storage = self.0.storage(module)?;
        if let Some(bias) = storage.bias {
            let message = "a correcting bias found, which belongs to these codes and would be lost; allowed: codes without one";
            return Err(Error::checkpoint(bias, message));
        }
        let name = storage.scale.ok_or_else(|| Error::Internal(format!("{module} has no scale")))?;
        let scales = self.0.tensor(&name)?.to_f32();
        Ok(Box::new(Codes { name: &spec.name, weights: &self.0, scales, rotation: storage.rotation }))
    }
}

/// One matrix of codes.
struct Codes<'a> {
    name: &'a str,
    weights: &'a Weights,
    scales: Vec<f32>,
    rotation: Option<Group>,
}

impl Rows for Codes<'_> {
    fn dtype(&self) -> StoredType {
        StoredType::BF16
    }

    fn row(&self, row: usize, out: &mut [f32]) {
        let Some(view) = self.weights.find(self.name) else { return };
        let width = out.len();
        let (Some(bytes), Some(scale)) =
            (view.bytes.get(row * width..(row + 1) * width), self.scales.get(row).copied())
        else {
            return;
        };
        if view.dtype == StoredType::F8E4M3 {
            for (to, code) in out.iter_mut().zip(bytes) {
                *to = e4m3::decode(*code) * scale;
            }
            return;
        }
        let mut wide = vec![0.0; width];
        dequantize_row(bytemuck::cast_slice(bytes), scale, self.rotation, &mut wide);
        for (to, v) in out.iter_mut().zip(wide) {
            *to = v as f32;
        }
    }

    fn done(&self) {
        self.weights.release(self.name);
    }
}
