//! Repeating something, and what its times amount to.

use std::time::{Duration, Instant};

use super::report::Times;

/// How often to measure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeats {
    /// Runs that are not counted.
    pub(super) warmup: usize,
    /// Runs that are.
    pub(super) runs: usize,
    /// Time after which no further run starts.
    pub(super) limit: Duration,
}

/// Runs that a measurement has even when its time is over.
const LEAST: usize = 5;

impl Repeats {
    /// Times `work`, which fails at once or never.
    pub(super) fn measure<E>(&self, mut work: impl FnMut() -> Result<(), E>) -> Result<Times, E> {
        let started = Instant::now();
        for _ in 0..self.warmup {
            work()?;
            if started.elapsed() > self.limit / 2 {
                break;
            }
        }
        let started = Instant::now();
        let mut times = Vec::with_capacity(self.runs);
        while times.len() < self.runs && (times.len() < LEAST || started.elapsed() < self.limit) {
            let run = Instant::now();
            work()?;
            times.push(run.elapsed().as_secs_f64() * 1e3);
        }
        Ok(summary(times))
    }
}

/// Median (the mean of the middle two), 95th percentile (nearest rank) and minimum.
pub(super) fn summary(mut times: Vec<f64>) -> Times {
    times.sort_by(f64::total_cmp);
    let at = |i: usize| times.get(i).copied().unwrap_or_default();
    let n = times.len();
    let rank = (n * 95).div_ceil(100).max(1) - 1;
    Times { runs: n, median_ms: median(&times), p95_ms: at(rank), min_ms: at(0) }
}

/// The median of sorted values; 0 of none.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match (sorted.get(n / 2), n % 2) {
        (Some(&high), 0) => (sorted[n / 2 - 1] + high) / 2.0,
        (Some(&middle), _) => middle,
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_known_times() {
        let times = summary((1..=20).rev().map(f64::from).collect());
        assert_eq!(times, Times { runs: 20, median_ms: 10.5, p95_ms: 19.0, min_ms: 1.0 });
        assert_eq!(summary(vec![3.0]), Times { runs: 1, median_ms: 3.0, p95_ms: 3.0, min_ms: 3.0 });
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn warm_up_is_not_counted_and_time_ends_a_measurement() {
        let calls = |warmup, runs, limit| {
            let mut calls = 0;
            let repeats = Repeats { warmup, runs, limit };
            let times = repeats.measure(|| {
                calls += 1;
                Ok::<_, ()>(())
            });
            (calls, times.map(|t| t.runs))
        };
        assert_eq!(calls(3, 10, Duration::from_secs(60)), (13, Ok(10)));
        assert_eq!(calls(3, 10, Duration::ZERO), (1 + LEAST, Ok(LEAST)));
        assert_eq!(calls(0, 2, Duration::ZERO), (2, Ok(2)));
        let failed: Result<Times, u8> =
            Repeats { warmup: 0, runs: 1, limit: Duration::ZERO }.measure(|| Err(7));
        assert_eq!(failed, Err(7));
    }
}
