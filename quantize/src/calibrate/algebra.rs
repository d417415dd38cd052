//! Products and factors of small dense matrices.

use dikast_core::cpu::{Scalar, Strided};
use dikast_core::{Error, Result};

/// `a[m, k] · b[n, k]ᵀ` in f32, row-major.
pub(super) fn product_transposed(a: &[f32], b: &[f32], (m, k, n): (usize, usize, usize)) -> Vec<f32> {
    let mut out = vec![0.0; m * n];
    f32::product(m, k, n, Strided::rows(a, k), Strided::rows(b, k).transposed(), &mut out);
    out
}

/// `a[t, k]ᵀ · b[t, n] / t`, row-major `[k, n]`, in f64.
pub(super) fn moments(a: &[f32], b: &[f32], (t, k, n): (usize, usize, usize)) -> Vec<f64> {
    let wide = |v: &[f32]| -> Vec<f64> { v.iter().map(|v| f64::from(*v)).collect() };
    /// Rows widened at once.
    const ROWS: usize = 1024;
    let (mut sum, mut part) = (vec![0.0; k * n], vec![0.0; k * n]);
    for first in (0..t).step_by(ROWS) {
        let rows = ROWS.min(t - first);
        let (a, b) = (wide(&a[first * k..][..rows * k]), wide(&b[first * n..][..rows * n]));
        f64::product(k, rows, n, Strided::rows(&a, k).transposed(), Strided::rows(&b, n), &mut part);
        sum.iter_mut().zip(&part).for_each(|(s, p)| *s += p);
    }
    sum.iter_mut().for_each(|v| *v /= t.max(1) as f64);
    sum
}

/// `a[m, k] · b[k, n]` in f64, row-major.
pub(super) fn product(a: &[f64], b: &[f64], (m, k, n): (usize, usize, usize)) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    f64::product(m, k, n, Strided::rows(a, k), Strided::rows(b, n), &mut out);
    out
}

/// The lower factor `L` of a positive definite `L·Lᵀ`, row-major `[n, n]`, zeros above the diagonal.
///
/// # Errors
/// [`Error::Internal`] for a matrix that is not positive definite.
pub(super) fn cholesky(a: &[f64], n: usize) -> Result<Vec<f64>> {
    let mut l = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let (row_i, row_j) = (&l[i * n..i * n + j], &l[j * n..j * n + j]);
            let sum = a[i * n + j] - row_i.iter().zip(row_j).map(|(x, y)| x * y).sum::<f64>();
            if i == j {
                if !(sum > 0.0 && sum.is_finite()) {
                    return Err(Error::Internal(
                        "moments of activations are not positive definite".to_owned(),
                    ));
                }
                l[i * n + i] = sum.sqrt();
            } else {
                l[i * n + j] = sum / l[j * n + j];
            }
        }
    }
    Ok(l)
}

/// The inverse of `L·Lᵀ` for a lower factor `L`.
pub(super) fn inverse(l: &[f64], n: usize) -> Vec<f64> {
    // The inverse of L by forward substitution, a row at a time, then its product with itself.
    let mut inv = vec![0.0; n * n];
    for i in 0..n {
        let (done, rest) = inv.split_at_mut(i * n);
        let row = &mut rest[..n];
        for k in 0..i {
            let factor = l[i * n + k];
            row[..=k].iter_mut().zip(&done[k * n..=k * n + k]).for_each(|(r, d)| *r -= factor * d);
        }
        let diagonal = l[i * n + i];
        row[i] = 1.0;
        row[..=i].iter_mut().for_each(|r| *r /= diagonal);
    }
    let mut out = vec![0.0; n * n];
    f64::product(n, n, n, Strided::rows(&inv, n).transposed(), Strided::rows(&inv, n), &mut out);
    out
}

/// The transpose of a square matrix.
pub(super) fn transposed(a: &[f64], n: usize) -> Vec<f64> {
    let mut out = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            out[j * n + i] = a[i * n + j];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_and_an_inverse_belong_to_the_matrix() -> Result<()> {
        let n = 7;
        let rows: Vec<f32> = (0..20 * n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
        let mut a = moments(&rows, &rows, (20, n, n));
        (0..n).for_each(|i| a[i * n + i] += 0.1);
        let l = cholesky(&a, n)?;
        let back = product(&l, &transposed(&l, n), (n, n, n));
        assert!(a.iter().zip(&back).all(|(x, y)| (x - y).abs() < 1e-12));
        let one = product(&a, &inverse(&l, n), (n, n, n));
        for i in 0..n {
            for j in 0..n {
                assert!((one[i * n + j] - f64::from(u8::from(i == j))).abs() < 1e-10, "{i} {j}");
            }
        }
        assert!(cholesky(&[0.0, 0.0, 0.0, 1.0], 2).is_err());
        Ok(())
    }

    #[test]
    fn moments_are_mean_products() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 2.0, 1.0]);
        assert_eq!(moments(&a, &b, (2, 2, 2)), [3.5, 1.5, 5.0, 2.0]);
        assert_eq!(product_transposed(&a, &b, (2, 2, 2)), [1.0, 4.0, 3.0, 10.0]);
    }
}
