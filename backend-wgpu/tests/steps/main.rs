//! Every step on a device against the CPU.

mod attention;
mod device;
mod harness;
mod heads;
mod matrices;
mod products;
mod quantizer;
mod rows;
