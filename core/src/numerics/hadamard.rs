//! Rotation by the regular Hadamard matrix (ConvRot, arXiv 2512.03673).
//!
//! ```text
//!      [ 1  1  1 -1 ]
//! H4 = [ 1  1 -1  1 ]     H(4^n) = H4 ⊗ … ⊗ H4 (n factors)     R = H(G) / sqrt(G)
//!      [ 1 -1  1  1 ]
//!      [-1  1  1  1 ]
//! ```
//!
//! `R` is symmetric and its own inverse, and it acts on each run of `G` features on its own, so `X·Wᵀ` is the product
//! of both sides rotated. `sqrt(G)` is a power of two: normalization is exact.
//!
//! With the index inside a group written in base 4, a stage combines the four elements that differ in one digit:
//! `S = a0+a1+a2+a3`, `y_d = S − 2·a_(3−d)`. Strides are 1, 4, 16, …, G/4.

/// Features that are rotated together: 4, 16, 64, 256 or 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(u16);

impl Group {
    /// All sizes, as messages list them.
    pub const SIZES: [usize; 5] = [4, 16, 64, 256, 1024];
    /// The usual size.
    pub const DEFAULT: Self = Self(256);

    /// A group of `size` features; `None` for a size that is not in [`Group::SIZES`].
    pub fn new(size: usize) -> Option<Self> {
        Self::SIZES.contains(&size).then_some(Self(size as u16))
    }

    /// Features of a group.
    pub const fn size(self) -> usize {
        self.0 as usize
    }

    /// Whether rows of `width` features are whole groups.
    pub const fn divides(self, width: usize) -> bool {
        width.is_multiple_of(self.size())
    }

    /// Base-4 digits of an index inside the group.
    pub(super) const fn digits(self) -> u32 {
        self.0.trailing_zeros() / 2
    }

    /// `1 / sqrt(G)`, exactly.
    pub fn normalization(self) -> f32 {
        1.0 / (1u32 << self.digits()) as f32
    }
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Rotates a row in place, in f32 in the order that the `standard` quantizer prescribes: every stage
/// `S = (a0+a1)+(a2+a3)`, `y_d = S − 2·a_(3−d)`, and one exact product by `1/sqrt(G)` last. The doubling is exact, so
/// that fusing it into a multiply-add changes nothing.
///
/// The row must be whole groups.
pub fn rotate(row: &mut [f32], group: Group) {
    stages(row, group, |[a, b, c, d]| {
        let s = (a + b) + (c + d);
        [s - 2.0 * d, s - 2.0 * c, s - 2.0 * b, s - 2.0 * a]
    });
    let norm = group.normalization();
    row.iter_mut().for_each(|v| *v *= norm);
}

/// Rotates a row in place, summed left to right and halved in every stage, as other GPU quantizers do. For comparison.
pub fn rotate_left_to_right(row: &mut [f32], group: Group) {
    stages(row, group, |[a, b, c, d]| {
        [
            0.5 * (((a + b) + c) - d),
            0.5 * (((a + b) - c) + d),
            0.5 * (((a - b) + c) + d),
            0.5 * (((-a + b) + c) + d),
        ]
    });
}

/// Rotates a row in place in f64, for weights.
pub fn rotate_f64(row: &mut [f64], group: Group) {
    stages(row, group, |[a, b, c, d]| {
        let s = (a + b) + (c + d);
        [s - 2.0 * d, s - 2.0 * c, s - 2.0 * b, s - 2.0 * a]
    });
    let norm = f64::from(group.normalization());
    row.iter_mut().for_each(|v| *v *= norm);
}

/// Multiplies a row by `H(G)` in place, not normalized: results are up to `G` times as large as the inputs, which must
/// leave room for that.
pub fn rotate_i32(row: &mut [i32], group: Group) {
    stages(row, group, |[a, b, c, d]| {
        let s = (a + b) + (c + d);
        [s - 2 * d, s - 2 * c, s - 2 * b, s - 2 * a]
    });
}

/// All stages of all groups of a row.
#[inline(always)]
fn stages<T: Copy>(row: &mut [T], group: Group, butterfly: impl Fn([T; 4]) -> [T; 4] + Copy) {
    debug_assert!(group.divides(row.len()), "{} features in groups of {group}", row.len());
    for part in row.chunks_exact_mut(group.size()) {
        for quartet in part.as_chunks_mut::<4>().0 {
            *quartet = butterfly(*quartet);
        }
        let mut stride = 4;
        while stride < group.size() {
            for block in part.chunks_exact_mut(4 * stride) {
                let (low, high) = block.split_at_mut(2 * stride);
                let ((a, b), (c, d)) = (low.split_at_mut(stride), high.split_at_mut(stride));
                for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
                    [*a, *b, *c, *d] = butterfly([*a, *b, *c, *d]);
                }
            }
            stride *= 4;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_powers_of_four_are_groups() {
        let allowed: Vec<usize> = (0..=5000).filter(|n| Group::new(*n).is_some()).collect();
        assert_eq!(allowed, Group::SIZES);
        assert_eq!(Group::new(1 << 20), None);
        for size in Group::SIZES {
            let group = Group::new(size).unwrap();
            assert_eq!(f64::from(group.normalization()), 1.0 / (size as f64).sqrt());
            assert!(group.divides(3 * size) && !group.divides(size / 2) && !group.divides(size + 1));
        }
    }

    #[test]
    fn a_constant_group_stays_constant() {
        // Rows of R sum to one: this is what tells the regular matrix from Sylvester's.
        for size in Group::SIZES {
            let mut row = vec![1.5f32; 2 * size];
            rotate(&mut row, Group::new(size).unwrap());
            assert_eq!(row, vec![1.5; 2 * size]);
        }
    }

    fn rows() -> impl Strategy<Value = (Group, Vec<f32>)> {
        (0usize..5, 1usize..4).prop_flat_map(|(i, groups)| {
            let size = Group::SIZES[i];
            (Just(Group::new(size).unwrap()), proptest::collection::vec(-100.0f32..100.0, size * groups))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_rotation_is_its_own_inverse((group, row) in rows()) {
            let largest = row.iter().fold(0f32, |m, v| m.max(v.abs()));
            for turn in [rotate as fn(&mut [f32], Group), rotate_left_to_right] {
                let mut twice = row.clone();
                turn(&mut twice, group);
                turn(&mut twice, group);
                for (a, b) in row.iter().zip(&twice) {
                    prop_assert!((a - b).abs() <= 1e-6 * largest, "{} {}", a, b);
                }
            }
            let mut twice: Vec<i32> = row.iter().map(|v| (*v * 100.0) as i32).collect();
            let once = twice.clone();
            rotate_i32(&mut twice, group);
            rotate_i32(&mut twice, group);
            prop_assert!(once.iter().zip(&twice).all(|(a, b)| a * group.size() as i32 == *b));
        }

        #[test]
        fn the_rotation_keeps_products((group, row) in rows()) {
            let mut other: Vec<f64> = row.iter().rev().map(|v| f64::from(*v) + 1.0).collect();
            let mut row: Vec<f64> = row.iter().map(|v| f64::from(*v)).collect();
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let before = dot(&row, &other);
            let size = dot(&row, &row).sqrt() * dot(&other, &other).sqrt();
            rotate_f64(&mut row, group);
            rotate_f64(&mut other, group);
            prop_assert!((before - dot(&row, &other)).abs() <= 1e-12 * size);
        }
    }
}
