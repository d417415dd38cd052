//! Why a server does not start, or ends badly.

use std::io;
use std::net::SocketAddr;

/// Why a server does not start, or ends badly.
#[derive(Debug)]
pub enum ServeError {
    /// The address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// The address is reached by others, and there is no key.
    NoKey(SocketAddr),
    /// A setting that contradicts another or is out of range.
    Setting(String),
    /// The operating system gave no thread or no signal handler.
    System(io::Error),
    /// A model cannot be served: it does not load, or its device went away for good.
    Model {
        /// The model's id.
        id: String,
        /// Why.
        source: dikast_core::Error,
    },
    /// Requests were still running at the end of the grace time.
    Cut {
        /// How many.
        requests: usize,
    },
}

impl std::fmt::Display for ServeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listen { address, source } => write!(f, "listening on {address}: {source}"),
            Self::NoKey(address) => write!(
                f,
                "{address} is reached by other machines and there is no key; give keys (DIKAST_API_KEY, --api-key-file), \
                 listen on 127.0.0.1, or allow everybody with --insecure"
            ),
            Self::Setting(message) => f.write_str(message),
            Self::System(source) => write!(f, "starting: {source}"),
            Self::Model { id, source } => write!(f, "model {id}: {source}"),
            Self::Cut { requests } => {
                write!(f, "{requests} requests were cut off at the end of the grace time")
            }
        }
    }
}

impl std::error::Error for ServeError {}
