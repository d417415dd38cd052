//! The HTTP server of Dikast.

mod wire;
