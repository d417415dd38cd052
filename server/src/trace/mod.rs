//! Traces: what a request spends its time on, as spans, and their way to a collector.
//!
//! The server writes spans in any case; without [`Traces`], or a subscriber of the program that runs it, nothing listens and
//! they cost nothing.

mod client;
mod endpoint;
mod export;
mod spans;

pub use endpoint::OtlpEndpoint;
pub use export::Traces;
pub(crate) use spans::{Ended, Stages, prepare, receive, request};
