//! CLEF models: Qwen3.5-architecture backbone, vision tower, joint schema head.

mod config;
mod model;
mod parse;
mod parts;
mod projection;
mod tensors;
mod text;
mod vision;

pub use config::{ClefConfig, HeadConfig, LayerType, MediaTokens, TextConfig, VisionConfig};
pub use model::{Clef, ClefOptions, ClefPreface};
pub use parts::{Part, PartBytes, part_of, part_sizes};
pub use tensors::{HEAD, QUESTION_TYPES, expected_tensors};
