//! Distances and their summaries.

/// `‖a − b‖₂ / ‖b‖₂` in f64; the numerator alone where `b` is all zeros. NaN in either gives NaN.
pub fn relative_l2(a: &[f32], b: &[f32]) -> f64 {
    debug_assert_eq!(a.len(), b.len());
    let (mut square, mut norm) = (0.0_f64, 0.0_f64);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (f64::from(*a), f64::from(*b));
        square += (a - b) * (a - b);
        norm += b * b;
    }
    if norm > 0.0 { (square / norm).sqrt() } else { square.sqrt() }
}

/// The mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The quantile `q` of sorted values, interpolated between neighbours as NumPy does by default; `None` of nothing.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let low = at.floor() as usize;
    let (a, b) = (sorted[low], sorted[(low + 1).min(last)]);
    Some(a + (b - a) * (at - low as f64))
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}
