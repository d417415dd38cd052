//! Percentile bootstrap over examples.

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::quantile;

/// Resamples of an interval.
pub const RESAMPLES: usize = 2000;
const SEED: u64 = 20_260_101;

/// The 95 % percentile interval of a statistic of examples. `statistic` gets as many places as there are examples, drawn
/// with replacement; a statistic of both models on the same places is a paired bootstrap. The same numbers on every
/// machine. `None` with fewer than two examples.
pub fn bootstrap(
    examples: usize,
    resamples: usize,
    mut statistic: impl FnMut(&[usize]) -> f64,
) -> Option<[f64; 2]> {
    if examples < 2 || resamples == 0 {
        return None;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut places = vec![0; examples];
    let mut found: Vec<f64> = (0..resamples)
        .map(|_| {
            places.iter_mut().for_each(|p| *p = random.random_range(0..examples));
            statistic(&places)
        })
        .collect();
    found.sort_by(f64::total_cmp);
    Some([quantile(&found, 0.025)?, quantile(&found, 0.975)?])
}
