//! Pictures and videos → patches: the goldens, decoding, and what hostile files meet.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod config;
mod decoding;
mod fixture;
mod goldens;
mod hostile;
mod movies;
mod towers;
