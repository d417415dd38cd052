//! How one projection is stored.

use super::StoredType;
use crate::numerics::hadamard::Group;

/// How one projection is stored: what a graph must know to multiply by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Stored type of `MODULE.weight`.
    pub dtype: StoredType,
    /// Name of the scales `[rows, 1]` of a quantized matrix.
    pub scale: Option<String>,
    /// Name of the bias `[rows]`, added after scaling.
    pub bias: Option<String>,
    /// Group in which INT8 codes are rotated, and in which activations must be; `None` where nothing is rotated.
    pub rotation: Option<Group>,
}
