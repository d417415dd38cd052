//! Is a probability of 80 % right in 80 of 100 cases?

/// How sure a decision was, and whether it was right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// Probability of what was decided.
    pub confidence: f64,
    /// Whether that is right.
    pub right: bool,
}

/// Decisions of similar confidence.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Bin {
    /// Lowest confidence of the bin; the highest is the next one's lowest, inside the bin only at 1.
    pub from: f64,
    /// Decisions in it.
    pub count: u64,
    /// Their mean confidence.
    pub confidence: f64,
    /// The share of them that is right.
    pub accuracy: f64,
}

/// Bins of equal width from 0 to 1; the empty ones are left out.
pub fn reliability(judgements: &[Judgement], bins: usize) -> Vec<Bin> {
    let mut sums = vec![(0_u64, 0.0, 0_u64); bins.max(1)];
    let width = sums.len() as f64;
    for j in judgements {
        let last = sums.len() - 1;
        let sum = &mut sums[((j.confidence * width) as usize).min(last)];
        sum.0 += 1;
        sum.1 += j.confidence;
        sum.2 += u64::from(j.right);
    }
    let filled = sums.into_iter().enumerate().filter(|(_, (count, ..))| *count > 0);
    filled
        .map(|(i, (count, confidence, right))| Bin {
            from: i as f64 / width,
            count,
            confidence: confidence / count as f64,
            accuracy: right as f64 / count as f64,
        })
        .collect()
}

/// Expected calibration error: the mean distance of confidence and accuracy over the bins, weighted by their counts.
/// `None` of nothing.
pub fn calibration_error(bins: &[Bin]) -> Option<f64> {
    let all: u64 = bins.iter().map(|b| b.count).sum();
    let apart = bins.iter().map(|b| b.count as f64 * (b.confidence - b.accuracy).abs()).sum::<f64>();
    (all > 0).then(|| apart / all as f64)
}

/// Brier's score of one question: `Σ (p − y)²` over its options, where `y` is 1 for what is right.
pub fn brier(probabilities: &[f64], right: impl Fn(usize) -> bool) -> f64 {
    let squares = probabilities.iter().enumerate();
    squares.map(|(i, p)| (p - f64::from(u8::from(right(i)))).powi(2)).sum()
}
