//! Weights: offline quantization of one output channel, and its inverse.

use super::SCALE_FLOOR;
use crate::numerics::hadamard::{self, Group};

/// Where a float32's last bit counts ones.
const ROUNDING: f32 = 12_582_912.0;

/// Quantizes one row of a weight matrix: returns `s = max(max|v| / 127, 1e-30)` and writes
/// `q = clamp(RNE(v / s), ±127)`, where `v` is the row rotated in f64 and rounded to f32.
///
/// `scratch` and `codes` are as long as `w`, and the row is whole groups. NaN or an infinity gives scale NaN and codes 0.
pub fn quantize_weight_row(w: &[f32], group: Option<Group>, scratch: &mut [f64], codes: &mut [i8]) -> f32 {
    debug_assert_eq!((w.len(), w.len()), (scratch.len(), codes.len()));
    for (to, from) in scratch.iter_mut().zip(w) {
        *to = f64::from(*from);
    }
    if let Some(group) = group {
        hadamard::rotate_f64(scratch, group);
    }
    let largest = f32::from_bits(scratch.iter().fold(0, |m, v| m.max((*v as f32).to_bits() & 0x7FFF_FFFF)));
    if !largest.is_finite() {
        codes.fill(0);
        return f32::NAN;
    }
    let scale = (largest / 127.0).max(SCALE_FLOOR);
    for (code, v) in codes.iter_mut().zip(scratch) {
        // Adding 1.5·2²³ rounds to the nearest integer, ties to even, and leaves it in the lowest bits: no call, no branch.
        *code = ((*v as f32 / scale).clamp(-127.0, 127.0) + ROUNDING).to_bits() as i8;
    }
    scale
}

/// The row of weights that codes stand for, in the original basis: `(q·s)·R` in f64. As long as `codes`.
pub fn dequantize_row(codes: &[i8], scale: f32, group: Option<Group>, out: &mut [f64]) {
    debug_assert_eq!(codes.len(), out.len());
    for (to, code) in out.iter_mut().zip(codes) {
        *to = f64::from(*code) * f64::from(scale);
    }
    if let Some(group) = group {
        hadamard::rotate_f64(out, group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back() {
        let row: Vec<f32> = (0..64).map(|i| ((i * 37 % 64) as f32 - 31.5) / 100.0).collect();
        for group in [None, Group::new(4), Group::new(16), Group::new(64)] {
            let (mut codes, mut wide) = (vec![0; 64], vec![0.0; 64]);
            let scale = quantize_weight_row(&row, group, &mut wide, &mut codes);
            assert!(codes.iter().any(|c| c.unsigned_abs() == 127));
            dequantize_row(&codes, scale, group, &mut wide);
            let error = row.iter().zip(&wide).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum::<f64>();
            // Each code is off by half a step at most, and the rotation keeps lengths.
            assert!(error.sqrt() <= 8.0 * f64::from(scale) / 2.0, "{group:?}: {error}");
        }
    }

    #[test]
    fn codes_are_rounded_to_the_nearest_integer_ties_to_even() {
        // A scale of one: what is rounded is the row itself.
        let mut row: Vec<f32> = (-508..=508).map(|i| i as f32 / 4.0).collect();
        row.extend([0.49999997, -0.49999997, 126.50001, -0.0, 1e-30]);
        let (mut codes, mut wide) = (vec![0; row.len()], vec![0.0; row.len()]);
        assert_eq!(quantize_weight_row(&row, None, &mut wide, &mut codes), 1.0);
        for (v, code) in row.iter().zip(&codes) {
            assert_eq!(f32::from(*code), v.round_ties_even(), "{v}");
        }
    }

    #[test]
    fn rows_without_a_scale() {
        let (mut codes, mut wide) = ([9; 4], [0.0; 4]);
        assert_eq!(quantize_weight_row(&[0.0; 4], Group::new(4), &mut wide, &mut codes), SCALE_FLOOR);
        assert_eq!(codes, [0; 4]);
        codes = [9; 4];
        let bad = [1.0, f32::INFINITY, 0.0, 0.0];
        assert!(quantize_weight_row(&bad, Group::new(4), &mut wide, &mut codes).is_nan());
        assert_eq!(codes, [0; 4]);
        assert!(quantize_weight_row(&[f32::NAN], None, &mut wide[..1], &mut codes[..1]).is_nan());
    }
}
