//! The product of two rows of codes, and what becomes of it.

/// Longest row whose product of codes cannot overflow i32, even if every code were −128.
pub const MAX_WIDTH: usize = (1 << 17) - 1;

/// `Σ x·w` of two rows of codes of equal length, exact for up to [`MAX_WIDTH`] codes.
pub fn dot(x: &[i8], w: &[i8]) -> i32 {
    debug_assert!(x.len() == w.len() && x.len() <= MAX_WIDTH);
    x.iter().zip(w).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

/// `((acc·s_x)·s_w) + b` in f32, each operation rounded to nearest even on its own; `acc` is rounded to f32 first.
pub fn epilogue(acc: i32, x_scale: f32, w_scale: f32, bias: Option<f32>) -> f32 {
    let t = (acc as f32 * x_scale) * w_scale;
    bias.map_or(t, |b| t + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_row_does_not_overflow() {
        let row = vec![-128i8; MAX_WIDTH];
        assert_eq!(i64::from(dot(&row, &row)), MAX_WIDTH as i64 * 128 * 128);
    }

    #[test]
    fn a_bias_of_zero_is_no_bias_but_for_the_sign_of_zero() {
        assert_eq!(epilogue(3, 0.5, 0.25, None), 0.375);
        assert_eq!(epilogue(3, 0.5, 0.25, Some(1.0)), 1.375);
        // 2²⁴ + 1 has no f32 of its own.
        assert_eq!(epilogue(16_777_217, 1.0, 1.0, None), 16_777_216.0);
    }
}
