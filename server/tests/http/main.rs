//! A running server over real connections.

mod cases;
mod cases_built;
mod device;
mod hostile;
mod keys;
mod load;
mod media;
mod operations;
mod recovery;
mod support;
mod tls;
