//! How weights lie in GPU memory.

use dikast_core::checkpoint::StoredType;

/// Storage of a weight's elements; rows are padded with zeros to a multiple of four elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Format {
    /// E4M3 codes, four a word.
    E4m3,
    /// INT8 codes, four a word.
    Int8,
    /// bfloat16, two a word.
    Bf16,
    /// binary16, two a word.
    F16,
    /// binary32.
    F32,
}

impl Format {
    /// The format that keeps a stored type as it is.
    pub(crate) fn of(stored: StoredType) -> Self {
        match stored {
            StoredType::F8E4M3 => Self::E4m3,
            StoredType::I8 => Self::Int8,
            StoredType::BF16 => Self::Bf16,
            StoredType::F16 => Self::F16,
            StoredType::F32 => Self::F32,
        }
    }

    /// Bytes of one element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::E4m3 | Self::Int8 => 1,
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    /// Bytes of a row of `columns` elements with its padding.
    pub(crate) fn row_bytes(self, columns: usize) -> u64 {
        (columns.next_multiple_of(4) * self.bytes()) as u64
    }
}

/// The type in which a product's operand is multiplied; the sum is always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Element {
    /// binary16; needs the device's `shader-f16`.
    F16,
    /// binary32.
    F32,
}

impl Element {
    /// Name in WGSL.
    pub(crate) fn wgsl(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
        }
    }

    /// Bytes of one element.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}
