//! FP8 W8A8 quantizers: per-token dynamic activations, per-channel weights.

use half::bf16;

use super::e4m3;

/// Quantizes one row of activations: returns the scale `s = max|x| / 448` and writes
/// `codes[k] = e4m3(clamp(x[k] / s, ±448))`, everything in f32, IEEE division, round to nearest even.
///
/// A row whose scale is zero (all zeros, or so small that the quotient underflows) gets scale 1 and codes 0. A row with
/// NaN or an infinity gets scale NaN and codes 0, so that the fault shows in the result. `codes` is as long as `x`.
pub fn quantize_row(x: &[f32], codes: &mut [u8]) -> f32 {
    debug_assert_eq!(x.len(), codes.len());
    // Without the sign, f32 bit patterns order like the values, infinity and then NaN above all.
    let largest = f32::from_bits(x.iter().fold(0, |m, v| m.max(v.to_bits() & 0x7FFF_FFFF)));
    if !largest.is_finite() {
        codes.fill(0);
        return f32::NAN;
    }
    let scale = largest / e4m3::MAX;
    if scale == 0.0 {
        codes.fill(0);
        return 1.0;
    }
    for (code, v) in codes.iter_mut().zip(x) {
        // `encode` saturates, which is the clamp.
        *code = e4m3::encode(v / scale);
    }
    scale
}

/// Quantizes one row in bfloat16 arithmetic, as compressed-tensors does: `s = bf16(max|x| / 448)`, 2⁻⁷ when that is
/// zero; `codes[k] = e4m3(clamp(bf16(x[k] / s), ±448))`, so the quotient is rounded twice.
///
/// This is `FP8_DYNAMIC` for the rows of a weight matrix (one scale an output channel), and the same package's generic
/// path for activations, which this engine does not use. NaN or an infinity gives scale NaN and codes 0. `codes` is as
/// long as `x`.
pub fn quantize_row_bf16(x: &[bf16], codes: &mut [u8]) -> bf16 {
    debug_assert_eq!(x.len(), codes.len());
    let largest = bf16::from_bits(x.iter().fold(0, |m, v| m.max(v.to_bits() & 0x7FFF)));
    if !largest.is_finite() {
        codes.fill(0);
        return bf16::NAN;
    }
    let mut scale = bf16::from_f32(largest.to_f32() / e4m3::MAX);
    if scale == bf16::ZERO {
        scale = bf16::EPSILON;
    }
    for (code, v) in codes.iter_mut().zip(x) {
        *code = e4m3::encode(super::bf16::round(v.to_f32() / scale.to_f32()));
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::{quantize_row, quantize_row_bf16};
    use half::bf16;

    #[test]
    fn rows_without_a_scale() {
        let mut codes = [9; 3];
        assert_eq!(quantize_row(&[0.0, -0.0, 0.0], &mut codes), 1.0);
        assert_eq!(codes, [0; 3]);
        let tiny = f32::from_bits(1);
        codes = [9; 3];
        assert_eq!(quantize_row(&[tiny, -tiny, 0.0], &mut codes), 1.0);
        assert_eq!(codes, [0; 3]);
        assert_eq!(quantize_row(&[], &mut []), 1.0);
        assert_eq!(quantize_row_bf16(&[bf16::ZERO], &mut codes[..1]).to_f32(), 0.0078125);
    }

    #[test]
    fn rows_that_are_not_finite() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut codes = [9; 2];
            assert!(quantize_row(&[1.0, bad], &mut codes).is_nan());
            assert_eq!(codes, [0; 2]);
            codes = [9; 2];
            assert!(quantize_row_bf16(&[bf16::ONE, bf16::from_f32(bad)], &mut codes).is_nan());
            assert_eq!(codes, [0; 2]);
        }
    }

    #[test]
    fn the_largest_element_becomes_448() {
        let mut codes = [0; 2];
        let scale = quantize_row(&[-7.0, 3.5], &mut codes);
        assert_eq!(scale, 0.015625);
        assert_eq!(codes, [0xFE, 0x76]);
    }
}
