//! Intervals and tests of proportions.

/// `z` of a two-sided 95 % interval.
const Z: f64 = 1.959_963_984_540_054;

/// Wilson's 95 % interval of a proportion of `hits` in `all`; `None` of nothing.
pub fn wilson(hits: u64, all: u64) -> Option<[f64; 2]> {
    if all == 0 {
        return None;
    }
    let (n, p) = (all as f64, hits as f64 / all as f64);
    let middle = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    // At the ends the interval touches them, whatever rounding says.
    let low = if hits == 0 { 0.0 } else { (middle - half).max(0.0) };
    let high = if hits == all { 1.0 } else { (middle + half).min(1.0) };
    Some([low, high])
}

/// McNemar's exact two-sided test: the chance of a split at least as uneven as `only_first` to `only_second` if both
/// models were right equally often. 1 without a difference.
pub fn mcnemar(only_first: u64, only_second: u64) -> f64 {
    let (n, k) = (only_first + only_second, only_first.min(only_second));
    if n == 0 {
        return 1.0;
    }
    // ln C(n, i) by sums, so that large counts do not overflow.
    let ln_half = n as f64 * -std::f64::consts::LN_2;
    let mut ln_choose = 0.0_f64;
    let mut tail = 0.0;
    for i in 0..=k {
        if i > 0 {
            ln_choose += ((n - i + 1) as f64).ln() - (i as f64).ln();
        }
        tail += (ln_choose + ln_half).exp();
    }
    (2.0 * tail).min(1.0)
}
