//! Goldens and the parity suite, written once and run on every backend.

pub mod clef;
pub mod data;
pub mod golden;
pub mod gpu;
pub mod int8;
