//! The arithmetic that all backends share: E4M3, bfloat16, per-row quantization.

pub mod bf16;
pub mod e4m3;
pub mod fp8;
