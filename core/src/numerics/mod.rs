//! The arithmetic that all backends share: E4M3, bfloat16, per-row quantization, the Hadamard rotation.

pub mod bf16;
pub mod e4m3;
pub mod fp8;
pub mod hadamard;
pub mod int8;
pub mod swiglu;
