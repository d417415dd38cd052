//! The CUDA backend of Dikast.
//!
//! * Weights are uploaded once, tiled as the tensor cores read them ([`CudaResident`]); embedding tables stay on the host
//!   and only a batch's rows travel.
//! * A plan ([`CudaPlan`]) is a whole forward captured as a CUDA graph for a bucket of sizes; the real sizes, offsets and
//!   attention tiles are data that the kernels read, so one graph serves every batch that fits.
//! * Kernels are CUDA C++ in `kernels/`, embedded when this crate is built with a toolkit (`DIKAST_NVCC`), else compiled
//!   by the run-time compiler and cached on disk.
//! * A row's bits never depend on the bucket, the neighbours or the kernel chosen: sums over k have one order per shape.
//!
//! The driver is loaded at run time: without NVIDIA software [`CudaBackend::open`] returns a typed error.

mod args;
mod backend;
mod bucket;
mod compile;
mod device;
mod fault;
mod forms;
mod fp8_trial;
mod gemm;
mod inputs;
mod int8_gemm;
mod int8_trial;
mod launch;
mod layout;
mod linear;
mod memory;
mod plan;
mod prefix;
mod probe;
mod product;
mod product_trial;
mod profile;
mod resident;
mod sources;
mod split;
mod split_linear;
mod support;
mod tensor_map;

pub use backend::{CudaBackend, CudaOptions, CudaPlan};
pub use fp8_trial::{Fp8Case, Fp8Trial};
pub use gemm::LargeTiles;
pub use int8_trial::{Int8Case, Int8Trial};
pub use plan::{Prefetch, RowKernel, RowTime};
pub use prefix::CudaSnapshot;
pub use probe::{Driver, driver};
pub use product_trial::ProductTrial;
pub use profile::{GemmTime, ProductKind};
pub use resident::CudaResident;
