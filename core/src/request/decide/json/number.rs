//! Whole numbers of any size, and floats in Python's spelling.

use std::fmt;

/// A whole number of any size, every digit kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integer(Repr);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Repr {
    /// What fits is held here, so that equal numbers are equal values.
    Small(i64),
    /// The digits, with a sign if negative.
    Big(Box<str>),
}

impl Integer {
    /// The number of a JSON literal: an optional minus, then digits without leading zeros.
    pub(super) fn from_literal(literal: &str) -> Self {
        Self(literal.parse().map_or_else(|_| Repr::Big(literal.into()), Repr::Small))
    }

    /// The value, if it fits.
    pub fn to_i64(&self) -> Option<i64> {
        match self.0 {
            Repr::Small(value) => Some(value),
            Repr::Big(_) => None,
        }
    }

    /// The nearest f64, infinite beyond its range.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Repr::Small(value) => *value as f64,
            Repr::Big(digits) => digits.parse().unwrap_or(f64::NAN),
        }
    }
}

impl From<i64> for Integer {
    fn from(value: i64) -> Self {
        Self(Repr::Small(value))
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Small(value) => value.fmt(f),
            Repr::Big(digits) => f.write_str(digits),
        }
    }
}

/// A float as Python's `repr` spells it: the shortest digits that read back as the same value, plain where
/// `-5 < exponent < 16`, else with a signed exponent of two digits at least.
pub(super) fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        // Rust's own plain form has the same digits, but no point in a whole number.
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_keep_their_digits() {
        for (literal, text, float) in [
            ("-0", "0", 0.0),
            ("9223372036854775807", "9223372036854775807", 9_223_372_036_854_775_807.0),
            ("-9223372036854775809", "-9223372036854775809", -9_223_372_036_854_775_809.0),
            ("123456789012345678901234567890", "123456789012345678901234567890", 1.234_567_890_123_456_8e29),
        ] {
            let integer = Integer::from_literal(literal);
            assert_eq!((integer.to_string().as_str(), integer.to_f64()), (text, float));
        }
        assert_eq!(Integer::from_literal("-0"), Integer::from(0));
    }

    #[test]
    fn floats_in_pythons_spelling() {
        for (value, text) in [
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1.5e-5, "1.5e-05"),
            (0.000_123, "0.000123"),
            (-1e-100, "-1e-100"),
            (f64::MIN_POSITIVE / 4.0, "5.562684646268003e-309"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(python_float(value), text);
        }
    }
}
