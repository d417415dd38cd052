//! Checkpoints of INT8 codes: every way in which one may be described, and what must be refused.

mod build;
mod descriptions;
mod layouts;
mod writing;
