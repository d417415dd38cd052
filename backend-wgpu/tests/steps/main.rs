//! Every step on a device against the CPU.

mod harness;
mod products;
mod rows;
