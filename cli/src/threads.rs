//! The size of the pool of threads that the CPU backend computes on.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use crate::terminal;

/// The variable that sets the size of the pool.
const VARIABLE: &str = "RAYON_NUM_THREADS";
/// Most threads for a core: more only wait for each other.
const PER_CORE: usize = 4;
/// Most threads on any machine, unless it has more cores.
const MOST: usize = 256;

/// Builds the pool with fewer threads where the environment asks for more than a machine can start.
pub(crate) fn limit() {
    let asked = std::env::var(VARIABLE).ok().and_then(|value| value.parse().ok());
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    let Some(threads) = asked.and_then(|asked| limited(asked, cores)) else { return };
    terminal::warn(&format!("{VARIABLE} asks for too many threads; {threads} are used"));
    // It fails only when there is a pool already, and then there is nothing to limit.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
}

/// The threads to use in place of `asked`, if that is too many for `cores`.
fn limited(asked: usize, cores: usize) -> Option<usize> {
    let most = cores.saturating_mul(PER_CORE).min(MOST).max(cores);
    (asked > most).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_too_many_are_limited() {
        assert_eq!(limited(70000, 2), Some(8));
        assert_eq!(limited(70000, 128), Some(256));
        assert_eq!(limited(70000, 400), Some(400));
        assert_eq!([limited(0, 2), limited(8, 2), limited(128, 128)], [None; 3]);
    }
}
