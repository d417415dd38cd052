//! Descriptions of matrices for the copy engine: the host's half of `kernels/tensor_copy.cuh`.
#![allow(unsafe_code)]

use cudarc::driver::sys;
use dikast_core::{Error, Result};

use crate::args::{Address, TensorMap};
use crate::device::Device;
use crate::layout::Stored;

/// Rows of a box: the tokens of the largest tile.
const BOX_ROWS: u32 = 128;

/// Rows in device memory, and the columns of a box of them: 128 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub(crate) address: Address,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) stored: Stored,
    pub(crate) box_columns: usize,
    /// Whether boxes are added to what is there.
    pub(crate) added: bool,
}

impl Matrix {
    /// The description that a kernel takes.
    ///
    /// # Errors
    /// [`Error::Internal`] for rows that are no multiple of 16 bytes, or a driver that does not take it.
    pub(crate) fn map(&self, device: &Device) -> Result<TensorMap> {
        use sys::CUtensorMapDataType as Type;
        let pitch = self.columns * self.stored.bytes();
        let whole = pitch.is_multiple_of(16) && self.box_columns * self.stored.bytes() == 128;
        let kind = match (self.stored, self.added) {
            // Memory flushes subnormal sums, and so do the kernels that add them.
            (Stored::F32, true) => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
            (Stored::F32, false) => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
            (Stored::F16, _) => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            (Stored::BF16, _) => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            (Stored::Split, _) => return Err(Error::Internal(format!("no boxes of {self:?}"))),
        };
        if !whole {
            return Err(Error::Internal(format!("no boxes of {self:?}")));
        }
        let sizes = [self.columns as u64, self.rows as u64];
        let pitches = [pitch as u64];
        let (size_of_box, steps) = ([self.box_columns as u32, BOX_ROWS], [1u32; 2]);
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        // SAFETY: all arrays have the two dimensions that the call is told of; the address is only written down.
        let status = unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                kind,
                2,
                self.address as *mut std::ffi::c_void,
                sizes.as_ptr(),
                pitches.as_ptr(),
                size_of_box.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        status.result().map_err(|e| device.fault("describing a matrix", e))?;
        Ok(TensorMap { opaque: map.opaque })
    }
}
