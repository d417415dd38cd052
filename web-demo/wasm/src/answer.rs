//! One request, answered by an engine on any backend.

use dikast_core::backend::Backend;
use dikast_core::engine::Engine;
use dikast_core::request::ClassifyRequest;
use dikast_core::{Error, Result};
use serde_json::Value;

/// The answer as the core's JSON.
pub(crate) async fn one<B: Backend>(engine: &mut Engine<B>, request: &ClassifyRequest) -> Result<Value> {
    let mut answers = engine.classify(std::slice::from_ref(request)).await;
    let none = || Err(Error::Internal("no answer to a request".to_owned()));
    Ok(answers.pop().unwrap_or_else(none)?.to_json())
}
