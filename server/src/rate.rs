//! How many requests a key may send.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// Requests in a time: that many at once, and then as many as the time brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub requests: NonZeroU32,
    /// In what time.
    pub per: Duration,
}

impl FromStr for Rate {
    type Err = String;

    /// `20/s`, `600/m` or `5000/h`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "requests per second, minute or hour are allowed, such as 20/s, 600/m or 5000/h".to_owned();
        let (requests, unit) = text.trim().split_once('/').ok_or_else(wrong)?;
        let seconds = match unit.trim() {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return Err(wrong()),
        };
        let requests = requests.trim().parse().map_err(|_| wrong())?;
        Ok(Self { requests, per: Duration::from_secs(seconds) })
    }
}

/// The state of one key's rate.
pub(crate) struct Limiter {
    limiter: DefaultDirectRateLimiter,
    clock: DefaultClock,
}

impl Limiter {
    pub(crate) fn new(rate: Rate) -> Self {
        let each = rate.per / rate.requests.get();
        // Rates beyond a request a nanosecond do not exist.
        let quota = Quota::with_period(each.max(Duration::from_nanos(1)));
        let quota = quota.unwrap_or_else(|| Quota::per_second(rate.requests)).allow_burst(rate.requests);
        Self { limiter: RateLimiter::direct(quota), clock: DefaultClock::default() }
    }

    /// Counts a request; how long to wait if it comes too soon.
    pub(crate) fn admit(&self) -> Result<(), Duration> {
        self.limiter.check().map_err(|until| until.wait_time_from(self.clock.now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_name_their_time() {
        let rate = |n: u32, seconds| {
            Ok(Rate { requests: NonZeroU32::new(n).expect("not 0"), per: Duration::from_secs(seconds) })
        };
        assert_eq!("20/s".parse(), rate(20, 1));
        assert_eq!(" 600 / m ".parse(), rate(600, 60));
        assert_eq!("4294967295/h".parse(), rate(u32::MAX, 3600));
        for text in ["", "5", "0/s", "-1/s", "1.5/s", "5/d", "4294967296/s", "/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_burst_and_then_a_wait() {
        let limiter = Limiter::new("3/h".parse().expect("a rate"));
        assert!((0..3).all(|_| limiter.admit().is_ok()));
        let wait = limiter.admit().expect_err("the fourth");
        assert!(wait > Duration::from_secs(1000) && wait <= Duration::from_secs(1200), "{wait:?}");
    }
}
