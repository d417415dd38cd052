//! Model families: configuration → expected tensors and graph.

pub mod clef;
pub mod gliclass;
pub mod mt5;
