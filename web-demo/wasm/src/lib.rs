//! Bindings of Dikast for web pages and workers.
//!
//! Thin by intent: requests and answers cross as the JSON that the core reads and writes, files cross as bytes, errors
//! as objects with a `kind`. Everything that decides anything is the core's. The TypeScript package beside this crate
//! drives it: `Loader` takes a checkpoint's files as they arrive, `Model` answers.
#![cfg(target_arch = "wasm32")]

mod error;
mod family;
mod incoming;
mod loader;
mod model;
mod options;
mod panic;
mod webgpu;

pub use loader::Loader;
pub use model::Model;
