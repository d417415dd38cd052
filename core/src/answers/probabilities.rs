//! Logits → probabilities, in f32 and the same on every platform.

/// `1 / (1 + e^-x)` without overflow.
pub(super) fn sigmoid(logit: f32) -> f32 {
    let e = libm::expf(-logit.abs());
    if logit >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// Softmax over all of the logits, which are finite.
pub(super) fn softmax(logits: &[f32]) -> Vec<f32> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponentials: Vec<f32> = logits.iter().map(|logit| libm::expf(logit - largest)).collect();
    let sum: f32 = exponentials.iter().sum();
    exponentials.into_iter().map(|e| e / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_stay_finite() {
        for logit in [f32::MAX, 200.0, 0.0, -200.0, f32::MIN] {
            let score = sigmoid(logit);
            assert!((0.0..=1.0).contains(&score), "{logit}: {score}");
        }
        assert_eq!((sigmoid(0.0), sigmoid(f32::MAX), sigmoid(f32::MIN)), (0.5, 1.0, 0.0));
        assert_eq!(softmax(&[f32::MAX, f32::MIN]), [1.0, 0.0]);
        assert_eq!(softmax(&[f32::MIN; 2]), [0.5, 0.5]);
        assert_eq!(softmax(&[7.0]), [1.0]);
    }
}
