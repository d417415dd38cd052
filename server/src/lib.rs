//! The HTTP server of Dikast: typed decisions and zero-shot labels in the formats that existing clients send.
//!
//! ```text
//! connection ──► exchange ──► wire ──► preparation ──► queue ──► worker ──► answers ──► wire
//!                id, key,     JSON →   tokens, on a    by tokens  owns the
//!                log, counts  request  thread of many             device
//! ```
//!
//! [`Server::start`] takes [`Config`] and one [`ModelSource`] a model. Each device of a model has a thread that owns it, and each
//! model a queue in front of them; what runs together is decided in `queue` alone, and an answer has the same bits whatever else runs.
//! [`Traces`] sends what requests spend their time on to a collector of OpenTelemetry.

mod app;
mod config;
mod connections;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod http;
mod keys;
mod log;
mod metrics;
mod model;
mod queue;
mod rate;
mod server;
mod signals;
mod tls;
mod trace;
mod wire;

pub use config::{Config, LogFormat};
pub use error::ServeError;
pub use keys::Key;
pub use model::ModelSource;
pub use rate::Rate;
pub use server::Server;
pub use tls::Tls;
pub use trace::{OtlpEndpoint, Traces};
