//! Model families: configuration → expected tensors and graph.

pub mod gliclass;
pub mod mt5;
