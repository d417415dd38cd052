//! Decoders of other people, kept from harming this program.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Error, Result};

/// Runs a decoder over hostile bytes. A panic inside it is a fault of that decoder which the bytes provoked: it becomes
/// an error of the request. (Where panics abort, as in the browser, they still do.)
pub(super) fn guarded<T>(name: &str, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing that the closure changes outlives it.
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(Error::invalid(name, "damaged: the decoder gave up")))
}

/// A decoder's refusal.
pub(super) fn damaged(name: &str, format: super::Format, error: impl std::fmt::Display) -> Error {
    const LONGEST: usize = 200;
    let text: String = error.to_string().chars().take(LONGEST).collect();
    Error::invalid(name, format!("damaged {format}: {text}"))
}
