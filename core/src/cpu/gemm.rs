//! Matrix products through the `matrixmultiply` crate, behind a checked interface.
//!
//! An element's sum runs over `k` in an order that depends on `k` alone, so a row has the same bits in any batch
//! (held by a test below).
#![allow(unsafe_code)]

/// A strided matrix over a slice: element `(i, j)` is `data[i·row + j·col]`.
#[derive(Debug, Clone, Copy)]
pub struct Strided<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Elements from a row to the next.
    pub row: usize,
    /// Elements from a column to the next.
    pub col: usize,
}

impl<'a, T> Strided<'a, T> {
    /// Rows of `width` elements, one after the other.
    pub fn rows(data: &'a [T], width: usize) -> Self {
        Self { data, row: width, col: 1 }
    }

    /// The same elements with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self { row: self.col, col: self.row, ..self }
    }

    fn fits(&self, rows: usize, cols: usize) -> bool {
        rows == 0 || cols == 0 || (rows - 1) * self.row + (cols - 1) * self.col < self.data.len()
    }
}

/// Element types with a product.
pub trait Scalar: Copy + Default + Send + Sync {
    /// `c[m, n] = a[m, k] · b[k, n]`, `c` row-major and contiguous.
    ///
    /// # Panics
    /// When an operand is too short for its sizes.
    fn product(m: usize, k: usize, n: usize, a: Strided<'_, Self>, b: Strided<'_, Self>, c: &mut [Self]);
}

macro_rules! scalar {
    ($t:ty, $gemm:path) => {
        impl Scalar for $t {
            fn product(m: usize, k: usize, n: usize, a: Strided<'_, $t>, b: Strided<'_, $t>, c: &mut [$t]) {
                assert!(
                    a.fits(m, k) && b.fits(k, n) && c.len() == m * n,
                    "matrix operands do not fit {m}×{k}×{n}"
                );
                // SAFETY: the assertion holds every index `i·row + j·col` with i, j below the sizes inside its
                // slice; `c` is exclusively borrowed, m·n long and row-major; strides fit isize because the
                // slices do.
                unsafe {
                    $gemm(
                        m,
                        k,
                        n,
                        1.0,
                        a.data.as_ptr(),
                        a.row as isize,
                        a.col as isize,
                        b.data.as_ptr(),
                        b.row as isize,
                        b.col as isize,
                        0.0,
                        c.as_mut_ptr(),
                        n as isize,
                        1,
                    );
                }
            }
        }
    };
}

scalar!(f32, matrixmultiply::sgemm);
scalar!(f64, matrixmultiply::dgemm);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(n: usize, seed: u64) -> Vec<f32> {
        let mut state = seed | 1;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 40) as f32 / (1 << 24) as f32) * 2.0 - 1.0
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// A row alone, in any batch and at any place has the same bits, and they are right.
        #[test]
        fn rows_do_not_depend_on_the_batch(m in 1usize..40, k in 1usize..600, n in 1usize..70, seed: u64) {
            let (a, b) = (values(m * k, seed), values(n * k, !seed));
            let weights = Strided::rows(&b, k).transposed();
            let mut all = vec![0.0; m * n];
            f32::product(m, k, n, Strided::rows(&a, k), weights, &mut all);
            for i in 0..m {
                let mut one = vec![0.0; n];
                f32::product(1, k, n, Strided::rows(&a[i * k..(i + 1) * k], k), weights, &mut one);
                prop_assert_eq!(&all[i * n..(i + 1) * n], &one[..]);
                for (j, y) in one.iter().enumerate() {
                    let exact: f64 = (0..k).map(|t| f64::from(a[i * k + t]) * f64::from(b[j * k + t])).sum();
                    prop_assert!((f64::from(*y) - exact).abs() < 1e-5 * k as f64);
                }
            }
        }
    }
}
