//! A kernel launch made ready: function, grid, arguments.
#![allow(unsafe_code)]

use bytemuck::Pod;
use cudarc::driver::{CudaFunction, sys};
use dikast_core::Result;

use crate::device::Device;

/// Grid, block and the rest of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) blocks: [usize; 2],
    pub(crate) threads: usize,
    /// Bytes of dynamic shared memory.
    pub(crate) shared: usize,
    /// Blocks of a cluster along x; 1 for none. Left out where the kernel itself says it.
    pub(crate) cluster: usize,
}

impl Grid {
    pub(crate) fn new(x: usize, y: usize, threads: usize) -> Self {
        Self { blocks: [x, y], threads, shared: 0, cluster: 1 }
    }

    pub(crate) fn shared(self, bytes: usize) -> Self {
        Self { shared: bytes, ..self }
    }

    pub(crate) fn cluster(self, blocks: usize) -> Self {
        Self { cluster: blocks, ..self }
    }
}

/// A launch with its arguments by value.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) name: &'static str,
    function: CudaFunction,
    pub(crate) grid: Grid,
    /// The kernel's one parameter, in words for its alignment.
    arguments: Vec<u64>,
}

impl Launch {
    /// `arguments` is the kernel's parameter struct.
    pub(crate) fn new<T: Pod>(name: &'static str, function: CudaFunction, grid: Grid, arguments: &T) -> Self {
        let bytes = bytemuck::bytes_of(arguments);
        let words = bytes
            .chunks(8)
            .map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_ne_bytes(word)
            })
            .collect();
        Self { name, function, grid, arguments: words }
    }

    /// Submits it. With `early`, it may start while its predecessor runs (both must be kernels of this crate).
    pub(crate) fn submit(&self, device: &Device, early: bool) -> Result<()> {
        let mut attributes = Vec::with_capacity(2);
        if early {
            attributes.push(sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
            });
        }
        if self.grid.cluster > 1 {
            let blocks =
                sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: self.grid.cluster as u32, y: 1, z: 1 };
            attributes.push(sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue { clusterDim: blocks },
            });
        }
        let config = sys::CUlaunchConfig {
            gridDimX: self.grid.blocks[0] as u32,
            gridDimY: self.grid.blocks[1] as u32,
            gridDimZ: 1,
            blockDimX: self.grid.threads as u32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.grid.shared as u32,
            hStream: device.stream.cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let mut parameters = [self.arguments.as_ptr().cast::<std::ffi::c_void>().cast_mut()];
        // SAFETY: the function is live (it keeps its module); the parameter is the kernel's one struct, laid out like
        // its CUDA twin (args.rs); the driver copies it during the call. That its addresses are live and large enough is
        // the plan's invariant: it owns every block they point into.
        let status = unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                self.function.cu_function(),
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        status.result().map_err(|e| device.fault(&format!("launching {}", self.name), e))
    }
}
