//! Tensors of a checkpoint in their stored form.

/// How a tensor's elements are stored in the file (little endian).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoredType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
    /// OCP E4M3 "fn": no infinities, NaN = 0x7F and 0xFF.
    F8E4M3,
    /// Signed 8-bit integer.
    I8,
}

impl StoredType {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::F8E4M3 | Self::I8 => 1,
        }
    }

    /// The type's name in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::F8E4M3 => "F8_E4M3",
            Self::I8 => "I8",
        }
    }

    /// The type of a file's tensor, if it is one of these.
    pub(super) const fn from_file(dtype: safetensors::Dtype) -> Option<Self> {
        Some(match dtype {
            safetensors::Dtype::F32 => Self::F32,
            safetensors::Dtype::F16 => Self::F16,
            safetensors::Dtype::BF16 => Self::BF16,
            safetensors::Dtype::F8_E4M3 => Self::F8E4M3,
            safetensors::Dtype::I8 => Self::I8,
            _ => return None,
        })
    }
}

impl std::fmt::Display for StoredType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A tensor of the checkpoint, borrowed. Bytes may have any alignment.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    /// Stored type.
    pub dtype: StoredType,
    /// Shape.
    pub shape: &'a [usize],
    /// Little-endian elements, row-major; exactly `shape product × dtype.bytes()` long.
    pub bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// Length of a row: the product of all dimensions but the first (1 for a scalar or a vector).
    pub fn row_len(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Widens `rows` (a range of the first dimension) into `out`, exactly (f32 holds every stored type).
    ///
    /// `out.len()` must be the number of elements in the rows.
    pub fn decode_rows(&self, rows: std::ops::Range<usize>, out: &mut [f32]) {
        let width = self.row_len() * self.dtype.bytes();
        let bytes = &self.bytes[rows.start * width..rows.end * width];
        match self.dtype {
            StoredType::F32 => {
                for (o, b) in out.iter_mut().zip(bytes.chunks_exact(4)) {
                    *o = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                }
            }
            StoredType::F16 => {
                for (o, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                    *o = half::f16::from_le_bytes([b[0], b[1]]).to_f32();
                }
            }
            StoredType::BF16 => {
                for (o, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                    *o = f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16);
                }
            }
            StoredType::F8E4M3 => {
                for (o, b) in out.iter_mut().zip(bytes) {
                    *o = crate::numerics::e4m3::decode(*b);
                }
            }
            StoredType::I8 => {
                for (o, b) in out.iter_mut().zip(bytes) {
                    *o = f32::from(*b as i8);
                }
            }
        }
    }

    /// The whole tensor widened to f32.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.shape.iter().product()];
        // A scalar has no first dimension: read it as one row.
        let flat = TensorView { shape: &[1], ..*self };
        if self.shape.is_empty() {
            flat.decode_rows(0..1, &mut out);
        } else {
            self.decode_rows(0..self.shape[0], &mut out);
        }
        out
    }
}
