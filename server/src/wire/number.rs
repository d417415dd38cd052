//! Numbers of answers.

use dikast_core::request::Json;

/// The decimal with that many digits after the point that is nearest to the exact binary value, halves to even.
pub(super) fn rounded(value: f64, decimals: u8) -> Json {
    let digits = usize::from(decimals);
    Json::Float(format!("{value:.digits$}").parse().unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_and_no_minus_zero_surprise() {
        assert_eq!(rounded(1.0 / 3.0, 6).to_string(), "0.333333");
        assert_eq!(rounded(1.0, 6).to_string(), "1.0");
        assert_eq!(rounded(0.125, 2).to_string(), "0.12");
    }
}
