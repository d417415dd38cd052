//! Elementwise functions.

use crate::graph::Activation;

/// The activation of one value.
pub(super) fn apply(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::GeluErf => 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            const SQRT_2_OVER_PI: f32 = 0.797_884_6;
            // (1 + tanh u) / 2 = 1 / (1 + e⁻²ᵘ): one exponential, and no cancellation for negative u.
            x * sigmoid(2.0 * SQRT_2_OVER_PI * (x + 0.044_715 * x * x * x))
        }
        Activation::Relu => x.max(0.0),
        Activation::Silu => x * sigmoid(x),
    }
}

/// `softmax` in place, f32; a row of zeros length stays empty.
pub(super) fn softmax(row: &mut [f32]) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for x in row.iter_mut() {
        *x = (*x - max).exp();
        sum += *x;
    }
    for x in row.iter_mut() {
        *x /= sum;
    }
}

/// `1 / (1 + e⁻ˣ)`.
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
