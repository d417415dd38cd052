//! GLiClass uni-encoder models.

mod config;
mod model;
mod parse;
mod tensors;

pub use config::{ClassPooling, GliClassConfig, Mt5Config, Pooling, Scorer};
pub use model::{GliClass, Preface};
pub use tensors::{Part, PartBytes, expected_tensors, part_of, part_sizes};
