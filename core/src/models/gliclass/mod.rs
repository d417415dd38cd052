//! GLiClass uni-encoder models.

mod config;

pub use config::{ClassPooling, GliClassConfig, Mt5Config, Pooling, Scorer};
