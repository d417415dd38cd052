//! bfloat16 rounding.

/// `x` rounded to the nearest bfloat16 (ties to even) and widened again; NaN stays NaN, overflow gives infinity.
pub fn round(x: f32) -> f32 {
    half::bf16::from_f32(x).to_f32()
}

/// `x` rounded once to the nearest bfloat16 (ties to even) and widened; NaN stays NaN, overflow gives infinity.
///
/// A plain `as f32` in between would round twice: a value just beside the middle of two bfloat16 numbers can become
/// that middle. Here the step through f32 rounds to odd, which keeps the side.
pub fn round_f64(x: f64) -> f32 {
    let near = x as f32;
    let wide = f64::from(near);
    if wide == x || !near.is_finite() {
        // A finite number that overflows f32 is far over the largest bfloat16.
        return round(near);
    }
    // Away from zero: back to the neighbour towards zero. Then the lowest bit says that something was cut off.
    let towards_zero = near.to_bits() - u32::from(wide.abs() > x.abs());
    round(f32::from_bits(towards_zero | 1))
}

#[cfg(test)]
mod tests {
    use super::{round, round_f64};

    #[test]
    fn rounds_to_nearest_even() {
        // One bfloat16 step at 1.0 is 2^-7.
        assert_eq!(round(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(round(1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        assert_eq!(round(f32::MAX), f32::INFINITY);
        assert!(round(f32::NAN).is_nan());
        assert!(round(-0.0).is_sign_negative());
    }

    #[test]
    fn rounds_once_from_f64() {
        let middle = 1.0 + 1.0 / 256.0;
        assert_eq!(round_f64(middle), 1.0);
        // Two roundings give 1.0 here.
        assert_eq!(round_f64(middle + 1e-12), 1.0 + 1.0 / 128.0);
        assert_eq!(round_f64(-middle - 1e-12), -1.0 - 1.0 / 128.0);
        assert_eq!(round_f64(1.0 + 3.0 / 256.0 - 1e-12), 1.0 + 1.0 / 128.0);
        assert_eq!(round_f64(1e39), f32::INFINITY);
        assert_eq!(round_f64(-1e39), f32::NEG_INFINITY);
        assert_eq!(round_f64(1e-60), 0.0);
        assert!(round_f64(-1e-60).is_sign_negative());
        assert!(round_f64(f64::NAN).is_nan());
    }
}
