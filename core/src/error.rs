//! The one error type of the crate, split by who can act on it.

/// Result with [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, by who can act on it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for something that is not allowed.
    #[error("invalid request: {field}: {message}")]
    InvalidRequest {
        /// Path of the offending field, for example `labels[3]`.
        field: String,
        /// What was found and what is allowed.
        message: String,
    },
    /// The caller's input is over a limit.
    #[error("too large: {what}: {actual} found, {limit} allowed")]
    TooLarge {
        /// What was counted, with its unit, for example `input tokens`.
        what: String,
        /// The largest count allowed.
        limit: u64,
        /// The count found.
        actual: u64,
    },
    /// A checkpoint file is damaged, incomplete or not what its configuration says. The operator acts.
    #[error("checkpoint: {item}: {message}")]
    Checkpoint {
        /// The file, tensor or configuration key.
        item: String,
        /// What was found and what is allowed.
        message: String,
    },
    /// The input is well formed, but this program or this device cannot do it.
    #[error("not supported by {device}: {need}")]
    Unsupported {
        /// The device or component that lacks it.
        device: String,
        /// What is needed.
        need: String,
    },
    /// Not enough memory; found out before anything was allocated wherever possible.
    #[error("out of memory on {device}: {needed} bytes needed, {available} available")]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        available: u64,
    },
    /// The device went away; the same request may succeed once it is back.
    #[error("device lost: {device}: {message}")]
    DeviceLost {
        /// The device.
        device: String,
        /// What the driver said.
        message: String,
    },
    /// A file could not be read.
    #[error("{path}: {message}")]
    Io {
        /// The path.
        path: String,
        /// What the operating system said.
        message: String,
    },
    /// A fault of this program.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// [`Error::InvalidRequest`] for a field.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::InvalidRequest { field: field.into(), message: message.into() }
    }

    /// [`Error::Checkpoint`] for a file, tensor or key.
    pub fn checkpoint(item: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Checkpoint { item: item.into(), message: message.into() }
    }
}
