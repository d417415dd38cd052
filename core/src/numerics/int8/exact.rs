//! The integer quantizer: no step depends on the order of sums or on fused operations.

use half::bf16;

use super::SCALE_FLOOR;
use crate::numerics::hadamard::{self, Group};

/// Largest biased exponent of a row that counts as zero: all magnitudes are below 2⁻⁸⁵.
const ZERO_EXPONENT: u32 = 41;

/// Puts a row of bfloat16 values on the grid `u = 2^(E−141)`: `n = RNE(x/u)`, at most 32 640 in magnitude. Returns `E`,
/// the largest biased exponent of the row and at least 1; `None` when an element is not finite.
///
/// A row with `E ≤ 41` is all zeros. Groups of more than 256 have a grid that is coarser by as many bits as their sums
/// are longer, so that rotated values stay below 2²⁴ and f32 would give the same integers.
pub fn to_grid(
    x: impl ExactSizeIterator<Item = bf16> + Clone,
    group: Option<Group>,
    grid: &mut [i32],
) -> Option<u32> {
    debug_assert_eq!(x.len(), grid.len());
    let field = |v: bf16| u32::from(v.to_bits() >> 7) & 0xFF;
    let largest = x.clone().fold(1, |m, v| m.max(field(v)));
    if largest == 0xFF {
        return None;
    }
    if largest <= ZERO_EXPONENT {
        grid.fill(0);
        return Some(largest);
    }
    let coarser = coarser(group);
    for (n, v) in grid.iter_mut().zip(x) {
        let bits = u32::from(v.to_bits());
        let exponent = field(v);
        // Subnormals have no hidden bit and the exponent of the smallest normals.
        let significand = (bits & 0x7F) | u32::from(exponent != 0) << 7;
        let magnitude = shift_rne(significand << 7, largest - exponent.max(1) + coarser) as i32;
        *n = if bits & 0x8000 == 0 { magnitude } else { -magnitude };
    }
    Some(largest)
}

/// Bits by which the grid of a group is coarser than that of 256 features.
fn coarser(group: Option<Group>) -> u32 {
    group.map_or(0, |g| (2 * g.digits()).saturating_sub(8))
}

/// `v / 2^shift`, ties to even; `v` is below 2¹⁵.
fn shift_rne(v: u32, shift: u32) -> u32 {
    if shift == 0 {
        return v;
    }
    if shift > 15 {
        return 0;
    }
    let (whole, rest, half) = (v >> shift, v & ((1 << shift) - 1), 1 << (shift - 1));
    whole + u32::from(rest > half || (rest == half && whole & 1 == 1))
}

/// Quantizes a row: grid, rotation in i32, `q = RNE(127·y / a)` with `a = max|y|` as an exact quotient, and
/// `s = max(a·u/sqrt(G)·f32(1/127), 1e-30)`, in which only the last product rounds.
pub(super) fn quantize(
    x: impl ExactSizeIterator<Item = bf16> + Clone,
    group: Option<Group>,
    grid: &mut [i32],
    codes: &mut [i8],
) -> f32 {
    debug_assert_eq!(x.len(), codes.len());
    let Some(exponent) = to_grid(x, group, grid) else {
        codes.fill(0);
        return f32::NAN;
    };
    if let Some(group) = group {
        hadamard::rotate_i32(grid, group);
    }
    let largest = grid.iter().fold(0, |m, y| m.max(y.unsigned_abs()));
    if largest == 0 {
        codes.fill(0);
        return SCALE_FLOOR;
    }
    // Exact: below 2²⁴, and the power of two is a normal number, from 2^-102 to 2^115.
    let digits = group.map_or(0, |g| g.digits() as i32);
    let step = exponent as i32 - 141 + coarser(group) as i32 - digits;
    let amax = largest as f32 * f32::from_bits(((step + 127) as u32) << 23);
    if !amax.is_finite() {
        codes.fill(0);
        return f32::NAN;
    }
    for (code, y) in codes.iter_mut().zip(grid) {
        // |y| ≤ a ≤ 2²³, so that 254·|y| + a stays below 2³².
        let (numerator, divisor) = (254 * y.unsigned_abs() + largest, 2 * largest);
        let q = numerator / divisor;
        let tie = numerator % divisor == 0 && q & 1 == 1;
        let q = (q - u32::from(tie)) as i32;
        *code = if *y < 0 { -q } else { q } as i8;
    }
    (amax * (1.0 / 127.0)).max(SCALE_FLOOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `RNE(a / b)`.
    fn divide(a: u128, b: u128) -> u128 {
        let (q, r) = (a / b, a % b);
        q + u128::from(2 * r > b || (2 * r == b && q % 2 == 1))
    }

    /// The definition in rational numbers: the value, the grid, the matrix, the quotient.
    fn oracle(x: &[bf16], group: Option<Group>) -> (Vec<i8>, f32) {
        let largest = x.iter().map(|v| u32::from(v.to_bits() >> 7) & 0xFF).max().unwrap_or(0).max(1);
        let size = group.map_or(1, Group::size);
        let bits = if size > 256 { 13 } else { 15 };
        // Every value is a multiple of 2^-133, so that f64 holds the quotient exactly.
        let grid = 2f64.powi(largest as i32 - 126 - bits);
        let n: Vec<i128> = x
            .iter()
            .map(|v| if largest <= 41 { 0 } else { (v.to_f64() / grid).round_ties_even() as i128 })
            .collect();
        // Entry (i, j) of the matrix: minus for every digit in which the two indices add up to three.
        let sign = |i: usize, j: usize| {
            let digits = (0..5).map(|d| ((i >> (2 * d)) & 3, (j >> (2 * d)) & 3));
            let flips = digits.take(size.trailing_zeros() as usize / 2).filter(|(a, b)| a + b == 3).count();
            if flips % 2 == 0 { 1 } else { -1 }
        };
        let y: Vec<i128> = (0..x.len())
            .map(|i| {
                let first = i / size * size;
                (0..size).map(|j| sign(i - first, j) * n[first + j]).sum()
            })
            .collect();
        let a = y.iter().map(|v| v.unsigned_abs()).max().unwrap_or(0);
        if a == 0 {
            return (vec![0; x.len()], 1e-30);
        }
        let code = |v: &i128| v.signum() as i8 * divide(127 * v.unsigned_abs(), a) as i8;
        let exact = a as f64 * grid / (size as f64).sqrt();
        (y.iter().map(code).collect(), (exact as f32 * (1.0 / 127.0)).max(1e-30))
    }

    fn rows() -> impl Strategy<Value = (Option<Group>, Vec<bf16>)> {
        // Exponents up to 240: larger ones overflow when rotated. Some rows are narrow, some wide, some tiny.
        let narrow = 1u16..230;
        (0usize..6, 1usize..3, narrow, 1u16..40).prop_flat_map(|(i, groups, low, span)| {
            let group = i.checked_sub(1).and_then(|i| Group::new(Group::SIZES[i]));
            let width = group.map_or(7, Group::size) * groups;
            let element = (0u16..2, low..low + span, 0u16..128, 0u8..8).prop_map(|(s, e, m, zero)| {
                let e = if zero == 0 { 0 } else { e.min(240) };
                bf16::from_bits(s << 15 | e << 7 | m)
            });
            (Just(group), proptest::collection::vec(element, width))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn codes_and_scale_are_those_of_rational_numbers((group, x) in rows()) {
            let (mut grid, mut codes) = (vec![0; x.len()], vec![0; x.len()]);
            let scale = quantize(x.iter().copied(), group, &mut grid, &mut codes);
            let (want, want_scale) = oracle(&x, group);
            prop_assert_eq!(codes, want);
            prop_assert_eq!(scale.to_bits(), want_scale.to_bits());
        }
    }

    #[test]
    fn rotated_grids_fit_24_bits() {
        for size in Group::SIZES {
            let group = Group::new(size).unwrap();
            let largest = bf16::from_bits(0x437F);
            let mut grid = vec![0; size];
            assert_eq!(to_grid(std::iter::repeat_n(largest, size), Some(group), &mut grid), Some(0x86));
            hadamard::rotate_i32(&mut grid, group);
            assert!(grid.iter().all(|y| y.unsigned_abs() <= 1 << 23), "{size}");
        }
    }
}
