//! Served models: what the outside knows of them, and the thread behind each.

mod family;
mod host;
mod registry;
mod slot;
mod source;
mod start;

pub(crate) use host::{Facts, Host, Loaded};
pub(crate) use registry::Registry;
pub(crate) use slot::{Slot, Status};
pub use source::ModelSource;
pub(crate) use start::Start;
