//! The shared arithmetic against stored vectors, bit for bit.

mod file;
mod fp8;
mod int8;
