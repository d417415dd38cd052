//! The portable GPU backend: the graph's steps as WGSL compute shaders, on Vulkan, Metal and DirectX 12 natively and on
//! WebGPU in a browser.
//!
//! * **Load**: weights go to a few buffers in their stored 8- or 16-bit form; tables marked
//!   [`HostRows`](dikast_core::graph::Residency::HostRows) stay on the host. What is needed is known, and checked
//!   against limits, before a byte is uploaded. The pipelines of ordinary requests are built here.
//! * **Plan**: for a bucket of sizes, every dispatch with its pipeline, parameters and bindings. Activations lie in a
//!   few buffers that all plans share. Pipelines are shared too, by all backends on a device.
//! * **Run**: one upload of the inputs, one encoder, one submission, one readback. Only real rows are computed.
//!
//! Sums are f32 and so is the residual stream. Where the device has `shader-f16`, products multiply f16 operands where
//! these are exact or known to fit (see `range.rs`); the f32 path is always there and can be forced. E4M3 codes are exact on
//! either path; tiles of them lie in workgroup memory as binary16, which needs no feature.
//!
//! INT8 weights are multiplied by rows that are rotated and not rounded to codes, as f16 or f32; or, where a model asks for
//! `exact` quantizers or the hardware multiplies packed codes by itself, by codes (see [`Int8Products`]).
//!
//! **Batch invariance**: a row's sums run in an order that depends on widths and the device alone. The portable loops of
//! a product add up four chains of k, one fused multiply-add a term. Cooperative matrices, where a native device has them,
//! are another sum of the same exact products, so a product takes them for every number of rows or for none.
//!
//! Shaders are in `shaders/`, one file a step; the modules here only choose, place and record.

mod adapter;
mod backend;
mod bucket;
#[cfg(not(target_arch = "wasm32"))]
mod ceilings;
mod device;
mod format;
mod inputs;
mod layout;
mod lower;
mod options;
mod pipelines;
mod placement;
mod plan;
mod range;
mod recipe;
mod resident;
mod shaders;
mod tiles;
mod turns;

pub use adapter::{AdapterSummary, adapters};
pub use backend::WgpuBackend;
pub use options::{
    ADAPTER_VARIABLE, AdapterChoice, DeviceOptions, Int8Products, LimitOverrides, Matrices, Precision,
    ProductChoice,
};
pub use plan::WgpuPlan;
pub use resident::WgpuResident;
