//! bfloat16 rounding.

/// `x` rounded to the nearest bfloat16 (ties to even) and widened again; NaN stays NaN, overflow gives infinity.
pub fn round(x: f32) -> f32 {
    half::bf16::from_f32(x).to_f32()
}

#[cfg(test)]
mod tests {
    use super::round;

    #[test]
    fn rounds_to_nearest_even() {
        // One bfloat16 step at 1.0 is 2^-7.
        assert_eq!(round(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(round(1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        assert_eq!(round(f32::MAX), f32::INFINITY);
        assert!(round(f32::NAN).is_nan());
        assert!(round(-0.0).is_sign_negative());
    }
}
