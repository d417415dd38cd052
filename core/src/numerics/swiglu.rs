//! `silu(gate)·up`, the input of the down projection, in the two roundings that exist.

use super::bf16;

/// `silu(x) = x / (1 + exp(−x))` in f64.
fn silu(x: f32) -> f64 {
    let x = f64::from(x);
    x / (1.0 + libm::exp(-x))
}

/// `bf16(silu(gate)·up)`: one rounding, what a fused step gives.
pub fn once(gate: f32, up: f32) -> f32 {
    bf16::round_f64(silu(gate) * f64::from(up))
}

/// `bf16(bf16(silu(gate))·up)`: what steps give that store every intermediate in bfloat16. `gate` and `up` are
/// bfloat16 values.
pub fn storage(gate: f32, up: f32) -> f32 {
    bf16::round(bf16::round_f64(silu(gate)) * up)
}

#[cfg(test)]
mod tests {
    use super::{once, storage};

    #[test]
    fn limits() {
        for f in [once, storage] {
            assert_eq!(f(0.0, 5.0), 0.0);
            assert_eq!(f(100.0, 2.0), 200.0);
            assert!(f(-1e4, 3.0) == 0.0, "exp overflows, the quotient is zero");
            assert!(f(f32::NAN, 1.0).is_nan());
        }
    }
}
