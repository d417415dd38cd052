//! INT8 with and without the Hadamard rotation: per-row dynamic activations, per-channel weights, the epilogue.
//!
//! A linear layer computes, with `R` the rotation of [`hadamard`](super::hadamard) or the identity,
//!
//! ```text
//! q_x, s_x = quantize(X·R)   one scale a row        q_w, s_w = quantize(W·R)   one scale an output channel
//! acc[m,n] = Σ_k q_x[m,k]·q_w[n,k]                  exact in i32
//! Y[m,n]   = ((f32(acc)·s_x[m])·s_w[n] + b[n])      every operation rounded on its own
//! ```

mod activation;
mod epilogue;
mod exact;
mod weight;

pub use activation::{
    quantize_row, quantize_row_bf16, quantize_row_bf16_division, quantize_row_f32, scale_row,
};
pub use epilogue::{MAX_WIDTH, dot, epilogue};
pub use exact::to_grid;
pub use weight::{dequantize_row, quantize_weight_row};

/// Smallest scale, the scale of a row of zeros.
pub const SCALE_FLOOR: f32 = 1e-30;

/// What the codes of activations are on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Int8Rows {
    /// Integers: products are exact.
    #[default]
    Codes,
    /// The values that `standard` codes are rounded from ([`scale_row`]): products have weights alone as codes, and are sums of
    /// reals. Mode `exact` always has codes.
    Unrounded,
}

/// How activations are quantized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Int8Mode {
    /// In f32, in the one order of [`hadamard::rotate`](super::hadamard::rotate).
    #[default]
    Standard,
    /// In integers, the same on every device by construction.
    Exact,
}
