//! The ladder of capacities: a plan serves every batch that fits its bucket.

use dikast_core::graph::Sizes;

/// Smallest capacity of rows.
const ROWS: usize = 32;
/// Smallest capacity of labels.
const LABELS: usize = 8;

/// The bucket of a batch: rows and labels rounded up to 2ⁿ or 1.5 · 2ⁿ, sequences to 2ⁿ. At most a third of a bucket
/// is unused memory; time does not depend on the bucket, since only real rows are computed.
pub(crate) fn bucket(sizes: &Sizes) -> Sizes {
    Sizes {
        tokens: step(sizes.tokens, ROWS),
        sequences: power_of_two(sizes.sequences.max(1)),
        labels: step(sizes.labels, LABELS),
        text_tokens: some(sizes.text_tokens, ROWS),
        questions: some(sizes.questions, LABELS),
        option_tokens: some(sizes.option_tokens, ROWS),
        patches: some(sizes.patches, ROWS),
        media_tokens: some(sizes.media_tokens, LABELS),
        frames: if sizes.frames == 0 { 0 } else { power_of_two(sizes.frames) },
    }
}

/// Nothing needs no room.
fn some(n: usize, smallest: usize) -> usize {
    if n == 0 { 0 } else { step(n, smallest) }
}

fn step(n: usize, smallest: usize) -> usize {
    if n <= smallest {
        return smallest;
    }
    let above = power_of_two(n);
    let between = above / 4 * 3;
    if n <= between { between } else { above }
}

/// The next power of two; the largest number where that does not fit, which no device has the memory for.
fn power_of_two(n: usize) -> usize {
    n.checked_next_power_of_two().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fits_and_is_its_own_bucket() {
        for n in (0..500).chain([1000, 4097]) {
            let sizes = Sizes {
                tokens: n,
                sequences: n / 7,
                labels: n / 3,
                text_tokens: n / 2,
                questions: n / 5,
                option_tokens: n / 2,
                patches: n,
                media_tokens: n / 4,
                frames: n / 16,
            };
            let b = bucket(&sizes);
            assert!(sizes.fits(&b));
            assert_eq!(bucket(&b), b);
            assert!(n <= ROWS || b.tokens * 2 <= n * 3, "{n} → {}", b.tokens);
        }
        let most = usize::MAX;
        let labels = most / 2 + 2;
        let huge = Sizes { tokens: most, sequences: most, labels, text_tokens: most, ..Sizes::default() };
        assert!(huge.fits(&bucket(&huge)));
    }
}
