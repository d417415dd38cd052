//! Every step on a device against the CPU.

mod attention;
mod clef;
mod clef_inputs;
mod clef_int8;
mod device;
mod harness;
mod heads;
mod matrices;
mod products;
mod quantizer;
mod rows;
mod weight_only;
