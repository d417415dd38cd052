//! Times: of the steps of one run, and what a device reaches at most.

/// The time of one step of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTime {
    /// Index of the step in [`crate::graph::Graph::steps`].
    pub step: usize,
    /// Nanoseconds.
    pub nanos: u64,
}

/// What a device reaches on work that has nothing else to wait for, measured just now; decimal units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceilings {
    /// Bytes read plus bytes written a second by a copy far larger than any cache.
    pub copy_bytes: f64,
    /// Floating-point operations a second of a large product of the kind that [`crate::graph::Step::Linear`] runs.
    pub product_flops: f64,
    /// The same for [`crate::graph::Step::QuantLinear`].
    pub quantized_product_flops: f64,
}
