//! How long a caller waits.

use std::time::{Duration, Instant};

use axum::http::HeaderMap;

use super::context::Context;
use crate::wire::failure::Failure;

/// The header: seconds as a decimal number, or a number with `s` or `ms` behind it.
pub(super) const HEADER: &str = "x-request-timeout";

/// When the caller gives up, if it said so.
pub(super) fn of(context: &Context, headers: &HeaderMap) -> Result<Option<Instant>, Failure> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let time = value.to_str().ok().and_then(read).ok_or_else(|| {
        Failure::invalid(
            HEADER,
            "something else found; seconds such as 2.5, 2.5s or 2500ms are allowed, up to a day",
        )
    })?;
    Ok(Some(context.arrived + time))
}

fn read(text: &str) -> Option<Duration> {
    const DAY: f64 = 86_400.0;
    let text = text.trim();
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok()? * unit;
    (seconds > 0.0 && seconds <= DAY).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("2.5", Some(2500)),
            (" 2.5s ", Some(2500)),
            ("250ms", Some(250)),
            ("250 ms", Some(250)),
            ("0", None),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("1e9", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(read(text), expected.map(Duration::from_millis), "{text}");
        }
    }
}
