//! Buckets: the few capacities for which forwards are captured.

use dikast_core::graph::Sizes;

/// Token capacities. Between neighbours at most a third is padding, beyond 256 tokens.
const TOKENS: [usize; 15] = [32, 64, 128, 192, 256, 320, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144];
/// Capacities of sequences and labels grow by four: blocks beyond the real number leave at once.
const COUNTS: [usize; 6] = [8, 32, 128, 512, 2048, 8192];

fn round(value: usize, ladder: &[usize]) -> usize {
    let last = ladder.last().copied().unwrap_or(1);
    ladder.iter().copied().find(|&c| c >= value).unwrap_or_else(|| value.next_multiple_of(last))
}

/// Nothing needs no room.
fn some(value: usize, ladder: &[usize]) -> usize {
    if value == 0 { 0 } else { round(value, ladder) }
}

/// All token capacities up to one.
pub(crate) fn up_to(most: usize) -> impl Iterator<Item = usize> {
    TOKENS.into_iter().filter(move |&tokens| tokens <= most)
}

/// The bucket of a batch.
pub(crate) fn of(sizes: &Sizes) -> Sizes {
    let tokens = round(sizes.tokens, &TOKENS);
    Sizes {
        tokens,
        sequences: round(sizes.sequences, &COUNTS).min(tokens),
        labels: round(sizes.labels, &COUNTS).min(tokens.max(sizes.labels)),
        // Text rows are some of the token rows.
        text_tokens: if sizes.text_tokens == 0 { 0 } else { tokens.max(sizes.text_tokens) },
        questions: some(sizes.questions, &COUNTS),
        option_tokens: some(sizes.option_tokens, &COUNTS),
        patches: some(sizes.patches, &TOKENS),
        media_tokens: some(sizes.media_tokens, &TOKENS),
        frames: some(sizes.frames, &COUNTS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_fits_its_bucket_and_buckets_are_stable() {
        for tokens in [1, 31, 64, 65, 130, 250, 300, 4096, 5000, 7000, 100_000] {
            for sequences in [1, 2, 9, 32, 300] {
                for labels in [0, 1, 5, 33, 700, 20_000] {
                    let (sequences, text_tokens) = (sequences.min(tokens), tokens / 2);
                    let sizes = Sizes {
                        tokens,
                        sequences,
                        labels,
                        text_tokens,
                        questions: labels / 3,
                        option_tokens: 2 * labels,
                        patches: 3 * tokens,
                        media_tokens: tokens / 4,
                        frames: labels / 5,
                    };
                    let bucket = of(&sizes);
                    assert!(sizes.fits(&bucket), "{sizes:?} {bucket:?}");
                    assert_eq!(of(&bucket), bucket);
                }
            }
        }
    }

    #[test]
    fn padding_is_bounded() {
        for tokens in 257..6144 {
            let bucket = round(tokens, &TOKENS);
            assert!(bucket * 2 <= tokens * 3, "{tokens} {bucket}");
        }
    }
}
