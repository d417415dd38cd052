//! What a model expects of its checkpoint.

use super::StoredType;

/// Stored types of a tensor that is not quantized.
const FLOATS: [StoredType; 3] = [StoredType::F32, StoredType::F16, StoredType::BF16];

/// What a tensor's values must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Values {
    /// Neither NaN nor infinite.
    Finite,
    /// Finite and greater than zero: scales.
    Positive,
}

/// A tensor the model expects: its name, the stored types allowed, its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in the file.
    pub name: String,
    /// Allowed stored types.
    pub allowed: Vec<StoredType>,
    /// Exact shape.
    pub shape: Vec<usize>,
    /// Allowed values.
    pub values: Values,
    /// Tensors that belong to this one when it is quantized.
    pub companions: Vec<Companion>,
}

/// A tensor that goes with another one when that is stored in a certain type, and only then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// The stored type that goes with it.
    pub when: StoredType,
    /// Whether it must be there.
    pub required: bool,
    /// The tensor; its own companions are not looked at.
    pub tensor: TensorSpec,
}

impl TensorSpec {
    /// A tensor stored as F32, F16 or BF16.
    pub fn float(name: impl Into<String>, shape: impl Into<Vec<usize>>) -> Self {
        let allowed = FLOATS.to_vec();
        Self {
            name: name.into(),
            allowed,
            shape: shape.into(),
            values: Values::Finite,
            companions: Vec::new(),
        }
    }

    /// `MODULE.weight` `[rows, columns]`, as a float type or as FP8 with one scale a row: then, and only then,
    /// `MODULE.weight_scale` `[rows, 1]` in BF16 or F32, every scale finite and greater than zero.
    pub fn projection(module: &str, rows: usize, columns: usize) -> Self {
        let mut spec = Self::float(format!("{module}.weight"), [rows, columns]);
        spec.allowed.push(StoredType::F8E4M3);
        let mut scale = Self::float(format!("{module}.weight_scale"), [rows, 1]);
        scale.allowed = vec![StoredType::BF16, StoredType::F32];
        scale.values = Values::Positive;
        spec.companions.push(Companion { when: StoredType::F8E4M3, required: true, tensor: scale });
        spec
    }

    /// `MODULE.weight` `[rows, columns]`, as a float type or as INT8 codes, rotated or not, with one scale a row: then,
    /// and only then, `MODULE.weight_scale` `[rows, 1]` in F32, every scale finite and greater than zero, and perhaps
    /// `MODULE.bias` `[rows]` in F32 or BF16, which is added after scaling. [`Weights::storage`](super::Weights::storage)
    /// says which of these a checkpoint has.
    ///
    /// Files may store `[rows]` scales and call them `scale_weight`; they must say whether the codes are rotated (see
    /// [`Weights::open`](super::Weights::open)).
    pub fn int8_projection(module: &str, rows: usize, columns: usize) -> Self {
        let mut spec = Self::float(format!("{module}.weight"), [rows, columns]);
        spec.allowed.push(StoredType::I8);
        let mut scale = Self::float(format!("{module}.weight_scale"), [rows, 1]);
        scale.allowed = vec![StoredType::F32];
        scale.values = Values::Positive;
        let mut bias = Self::float(format!("{module}.bias"), [rows]);
        bias.allowed = vec![StoredType::F32, StoredType::BF16];
        let companion = |required, tensor| Companion { when: StoredType::I8, required, tensor };
        spec.companions.extend([companion(true, scale), companion(false, bias)]);
        spec
    }

    /// `MODULE.weight` `[rows, columns]` and `MODULE.bias` `[rows]`, not quantized.
    pub fn linear(module: &str, rows: usize, columns: usize) -> [Self; 2] {
        [
            Self::float(format!("{module}.weight"), [rows, columns]),
            Self::float(format!("{module}.bias"), [rows]),
        ]
    }
}

/// Two names for one tensor: tied parameters that a writer may store under either name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The name in [`Expected::tensors`].
    pub name: String,
    /// The other name. A file that has both must have the same bytes under both.
    pub other: String,
}

/// Consecutive rows of a tensor under a name of their own: a part of a fused projection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The name of the part.
    pub name: String,
    /// The tensor, one of [`Expected::tensors`].
    pub of: String,
    /// Rows of the tensor.
    pub rows: std::ops::Range<usize>,
}

/// Everything that a checkpoint must hold, and what else it may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The tensors.
    pub tensors: Vec<TensorSpec>,
    /// Second names.
    pub aliases: Vec<Alias>,
    /// Tensors that are known not to matter.
    pub ignored: Vec<String>,
    /// What the names of further tensors begin with that do not matter, for example `mtp.`.
    pub ignored_prefixes: Vec<String>,
    /// Matrices that a file may hold as one.
    pub fused: Vec<Fused>,
    /// Files besides the model's own that hold some of the tensors.
    pub side_files: Vec<SideFile>,
    /// Parts of tensors that the model reads on their own.
    pub slices: Vec<Slice>,
}

/// Matrices that a file may hold as one, one below the other. Everybody else sees the parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fused {
    /// Module of the one matrix.
    pub name: String,
    /// Modules of its parts and their rows, from the top.
    pub parts: Vec<(String, usize)>,
}

/// A weight file besides the model's own. Where it is missing, its tensors must be in the model's own files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideFile {
    /// Its name.
    pub file: String,
    /// What [`Expected::tensors`] puts before the names of its tensors.
    pub prefix: String,
}

/// A tensor as a writer would store it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTensor {
    /// Name in the file.
    pub name: String,
    /// Stored type.
    pub dtype: StoredType,
    /// Shape.
    pub shape: Vec<usize>,
}

impl StoredTensor {
    /// Bytes of the tensor.
    pub fn bytes(&self) -> u64 {
        self.shape.iter().map(|d| *d as u64).product::<u64>() * self.dtype.bytes() as u64
    }
}

impl Expected {
    /// The tensors of a file in which each tensor is stored as `choose` says, required companions included.
    pub fn stored(&self, choose: impl Fn(&TensorSpec) -> StoredType) -> Vec<StoredTensor> {
        let mut list = Vec::new();
        for spec in &self.tensors {
            let dtype = choose(spec);
            list.push(StoredTensor { name: spec.name.clone(), dtype, shape: spec.shape.clone() });
            for companion in spec.companions.iter().filter(|c| c.required && c.when == dtype) {
                let (name, shape) = (companion.tensor.name.clone(), companion.tensor.shape.clone());
                list.push(StoredTensor { name, dtype: choose(&companion.tensor), shape });
            }
        }
        list
    }
}
