//! Quantizers of one row of activations.

use half::bf16;

use super::super::{bf16 as rounding, hadamard};
use super::{Int8Mode, SCALE_FLOOR, exact};
use crate::numerics::hadamard::Group;

/// Adding and subtracting 1.5·2²³ rounds to an integer, ties to even, for magnitudes up to 2²².
const TO_INTEGER: f32 = 12_582_912.0;

/// Quantizes one row of activations that is first rounded to bfloat16, the type that the formula starts from: returns
/// the scale and writes the codes.
///
/// `scratch` and `codes` are as long as `x`, and the row is whole groups. What `scratch` holds afterwards means nothing.
///
/// * [`Int8Mode::Standard`]: rotate in f32, `s = max(max|v| / 127, 1e-30)`, `q = clamp(RNE(v·(1/s)), ±127)`.
/// * [`Int8Mode::Exact`]: the row on an integer grid, rotated in i32, `q = RNE(127·y / max|y|)` as an exact quotient.
///
/// A row of zeros has scale 1e-30 and codes 0. A row with NaN or an infinity, or that overflows when rotated, has scale
/// NaN and codes 0, so that the fault shows in the result.
pub fn quantize_row(
    x: &[f32],
    group: Option<Group>,
    mode: Int8Mode,
    scratch: &mut [f32],
    codes: &mut [i8],
) -> f32 {
    match mode {
        Int8Mode::Standard => {
            debug_assert_eq!(x.len(), scratch.len());
            for (to, from) in scratch.iter_mut().zip(x) {
                *to = rounding::round(*from);
            }
            quantize_row_f32(scratch, group, codes)
        }
        Int8Mode::Exact => {
            let bits = x.iter().map(|v| bf16::from_f32(*v));
            exact::quantize(bits, group, bytemuck::cast_slice_mut(scratch), codes)
        }
    }
}

/// [`quantize_row`] of a row that is stored in bfloat16.
pub fn quantize_row_bf16(
    x: &[bf16],
    group: Option<Group>,
    mode: Int8Mode,
    scratch: &mut [f32],
    codes: &mut [i8],
) -> f32 {
    match mode {
        Int8Mode::Standard => {
            debug_assert_eq!(x.len(), scratch.len());
            for (to, from) in scratch.iter_mut().zip(x) {
                *to = from.to_f32();
            }
            quantize_row_f32(scratch, group, codes)
        }
        Int8Mode::Exact => {
            exact::quantize(x.iter().copied(), group, bytemuck::cast_slice_mut(scratch), codes)
        }
    }
}

/// The `standard` quantizer of a row in f32, without any rounding to bfloat16. The row is rotated in place.
pub fn quantize_row_f32(row: &mut [f32], group: Option<Group>, codes: &mut [i8]) -> f32 {
    debug_assert_eq!(row.len(), codes.len());
    if let Some(group) = group {
        hadamard::rotate(row, group);
    }
    let Some(largest) = largest(row) else {
        codes.fill(0);
        return f32::NAN;
    };
    let scale = (largest / 127.0).max(SCALE_FLOOR);
    let inverse = 1.0 / scale;
    for (code, v) in codes.iter_mut().zip(row) {
        *code = nearest(*v * inverse).clamp(-127, 127) as i8;
    }
    scale
}

/// A row rotated and put in units of its scale, but not rounded to codes, nor to bfloat16 first: what a device multiplies
/// that takes weights alone as codes. Returns the scale, which is that of [`quantize_row_f32`]; the row is replaced by values
/// from −127 to 127, zeros where the scale is NaN.
pub fn scale_row(row: &mut [f32], group: Option<Group>) -> f32 {
    if let Some(group) = group {
        hadamard::rotate(row, group);
    }
    let Some(largest) = largest(row) else {
        row.fill(0.0);
        return f32::NAN;
    };
    let scale = (largest / 127.0).max(SCALE_FLOOR);
    let inverse = 1.0 / scale;
    row.iter_mut().for_each(|v| *v = (*v * inverse).clamp(-127.0, 127.0));
    scale
}

/// The formula of a published CUDA quantizer, with IEEE division, for comparison: rotation summed left to right,
/// `s = max(max|v|·f32(1/127), 1e-30)`, codes `RNE(bf16(bf16(v) / bf16(s)))` from −128 to 127.
///
/// The scale is that of f32, the codes use the rounded one, and the quotient is rounded twice: 5 to 14 % of the codes
/// differ from the nearest. Input and output as for [`quantize_row_bf16`].
pub fn quantize_row_bf16_division(
    x: &[bf16],
    group: Option<Group>,
    scratch: &mut [f32],
    codes: &mut [i8],
) -> f32 {
    debug_assert_eq!((x.len(), x.len()), (scratch.len(), codes.len()));
    for (to, from) in scratch.iter_mut().zip(x) {
        *to = from.to_f32();
    }
    if let Some(group) = group {
        hadamard::rotate_left_to_right(scratch, group);
    }
    let Some(largest) = largest(scratch) else {
        codes.fill(0);
        return f32::NAN;
    };
    let scale = (largest.min(bf16::MAX.to_f32()) * (1.0 / 127.0)).max(SCALE_FLOOR);
    let divisor = rounding::round(scale);
    for (code, v) in codes.iter_mut().zip(scratch) {
        *code = nearest(rounding::round(rounding::round(*v) / divisor)).clamp(-128, 127) as i8;
    }
    scale
}

/// Largest magnitude; `None` where one element is not finite.
fn largest(row: &[f32]) -> Option<f32> {
    // Without the sign, f32 bit patterns order like the values, infinity and then NaN above all.
    let largest = f32::from_bits(row.iter().fold(0, |m, v| m.max(v.to_bits() & 0x7FFF_FFFF)));
    largest.is_finite().then_some(largest)
}

/// Nearest integer, ties to even, of a number of at most 2²².
#[inline(always)]
fn nearest(v: f32) -> i32 {
    ((v + TO_INTEGER) - TO_INTEGER) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_nearest_with_ties_to_even() {
        for twice in -520..=520i32 {
            for step in [-1e-5f32, 0.0, 1e-5] {
                let v = twice as f32 / 2.0 + step;
                assert_eq!(nearest(v), v.round_ties_even() as i32, "{v}");
            }
        }
    }

    #[test]
    fn the_modes_round_to_bfloat16_first() {
        let group = Group::new(4);
        let x = [1.0 + 1e-4, -3.0, 0.3, 7.77];
        let stored = x.map(bf16::from_f32);
        for mode in [Int8Mode::Standard, Int8Mode::Exact] {
            let (mut a, mut b) = ([0; 4], [9; 4]);
            let mut scratch = [0.0; 4];
            let first = quantize_row(&x, group, mode, &mut scratch, &mut a);
            let second = quantize_row_bf16(&stored, group, mode, &mut scratch, &mut b);
            assert_eq!((first.to_bits(), a), (second.to_bits(), b));
        }
        let (mut row, mut codes) = (x, [0; 4]);
        let exact = quantize_row_f32(&mut row, None, &mut codes);
        assert_eq!(exact, 7.77 / 127.0, "no rounding here");
    }

    #[test]
    fn faulty_rows_show() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for mode in [Int8Mode::Standard, Int8Mode::Exact] {
                for group in [None, Group::new(4)] {
                    let mut codes = [9; 8];
                    let row = [1.0, 2.0, 3.0, 4.0, 5.0, bad, 7.0, 8.0];
                    assert!(quantize_row(&row, group, mode, &mut [0.0; 8], &mut codes).is_nan());
                    assert_eq!(codes, [0; 8]);
                }
            }
        }
        // Finite, but twice as large as f32 allows once rotated.
        for mode in [Int8Mode::Standard, Int8Mode::Exact] {
            let mut codes = [9; 4];
            let row = [3e38, 3e38, 3e38, -3e38];
            assert!(quantize_row(&row, Group::new(4), mode, &mut [0.0; 4], &mut codes).is_nan());
            assert_eq!(codes, [0; 4]);
        }
    }

    #[test]
    fn codes_are_the_nearest_to_the_scaled_row() {
        let row: Vec<f32> = (0..64).map(|i| ((i * 37 % 29) as f32 - 14.3) * 1.7e4).collect();
        for group in [None, Group::new(16)] {
            let (mut rotated, mut scaled, mut codes) = (row.clone(), row.clone(), [0; 64]);
            let scale = quantize_row_f32(&mut rotated, group, &mut codes);
            assert_eq!(scale_row(&mut scaled, group), scale);
            for (code, v) in codes.iter().zip(&scaled) {
                assert_eq!(f32::from(*code), v.round_ties_even());
            }
            assert!(scaled.iter().any(|v| v.fract() != 0.0) && scaled.iter().all(|v| v.abs() <= 127.0));
        }
        let mut faulty = [1.0, f32::INFINITY, 0.0, 2.0];
        assert!(scale_row(&mut faulty, Group::new(4)).is_nan());
        assert_eq!(faulty, [0.0; 4]);
    }

    #[test]
    fn an_empty_row_is_a_row_of_zeros() {
        for mode in [Int8Mode::Standard, Int8Mode::Exact] {
            assert_eq!(quantize_row(&[], None, mode, &mut [], &mut []), SCALE_FLOOR);
        }
    }
}
