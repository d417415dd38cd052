//! Probabilities → confidence.

use crate::request::Confidence;

/// Confidence of a choice among unordered options.
pub(super) fn of_choice(confidence: Confidence, probabilities: &[f64]) -> f64 {
    let n = probabilities.len() as f64;
    match confidence {
        Confidence::Max => largest(probabilities),
        Confidence::Entropy => entropy(probabilities),
        Confidence::TypeSafe if probabilities.len() < 2 => 1.0,
        Confidence::TypeSafe => ((largest(probabilities) - 1.0 / n) / (1.0 - 1.0 / n)).clamp(0.0, 1.0),
    }
}

/// Confidence of a level on an ordered scale.
pub(super) fn of_score(confidence: Confidence, probabilities: &[f64]) -> f64 {
    let n = probabilities.len() as f64;
    match confidence {
        Confidence::Max => largest(probabilities),
        Confidence::Entropy => entropy(probabilities),
        Confidence::TypeSafe if probabilities.len() < 2 => 1.0,
        Confidence::TypeSafe => {
            let most_likely = first_largest(probabilities) as f64;
            let levels = || (0..probabilities.len()).map(|level| level as f64);
            let spread: f64 = levels().zip(probabilities).map(|(i, p)| p * (i - most_likely).abs()).sum();
            // The spread of a uniform answer around the middle of the scale.
            let uniform = levels().map(|i| (i - (n - 1.0) / 2.0).abs()).sum::<f64>() / n;
            (1.0 - spread / uniform).clamp(0.0, 1.0)
        }
    }
}

/// Index of the largest value, the first of equals.
pub(super) fn first_largest(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (i, p) in probabilities.iter().enumerate() {
        if *p > probabilities[best] {
            best = i;
        }
    }
    best
}

fn largest(probabilities: &[f64]) -> f64 {
    probabilities.iter().copied().fold(0.0, f64::max)
}

/// `1 − H(p)/ln n`.
fn entropy(probabilities: &[f64]) -> f64 {
    if probabilities.len() < 2 {
        return 1.0;
    }
    let terms = probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * libm::log(*p));
    (1.0 - terms.sum::<f64>() / libm::log(probabilities.len() as f64)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 5e-5, "{found} {expected}");
    }

    #[test]
    fn published_examples() {
        // Ollama documents 0.8906 for these rounded probabilities; then the formulas of the other dialects on them.
        let p = [0.0125, 0.9781, 0.0093];
        assert!((of_choice(Confidence::Entropy, &p) - 0.8906).abs() < 3e-4);
        near(of_choice(Confidence::Max, &p), 0.9781);
        near(of_choice(Confidence::TypeSafe, &p), (0.9781 * 3.0 - 1.0) / 2.0);
        // 1 − (0.102 + 0.302 + 2·0.011)/1: the mean distance of four uniform levels from their middle is 1.
        near(of_score(Confidence::TypeSafe, &[0.011, 0.102, 0.585, 0.302]), 0.574);
    }

    #[test]
    fn certain_is_1_uniform_is_0_and_one_option_is_certain() {
        for confidence in [Confidence::TypeSafe, Confidence::Entropy] {
            for of in [of_choice, of_score] {
                assert_eq!(of(confidence, &[1.0]), 1.0);
                assert_eq!(of(confidence, &[0.0, 1.0, 0.0]), 1.0);
                near(of(confidence, &[0.25; 4]), 0.0);
            }
        }
        assert_eq!(of_score(Confidence::TypeSafe, &[0.5, 0.0, 0.5]), 0.0);
        assert_eq!(first_largest(&[0.1, 0.4, 0.4, 0.1]), 1);
    }
}
