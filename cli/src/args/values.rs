//! Parsers of single argument values.

use std::num::NonZeroUsize;

use dikast_core::numerics::hadamard::Group;
use dikast_core::request::limits::MAX_TOKENS;

/// A number of tokens that a request may have.
pub(crate) fn tokens(value: &str) -> Result<NonZeroUsize, String> {
    let number: NonZeroUsize = value.parse().map_err(|e: std::num::ParseIntError| e.to_string())?;
    if number.get() > MAX_TOKENS { Err(format!("must be at most {MAX_TOKENS}")) } else { Ok(number) }
}

/// The size of a rotation group.
pub(crate) fn group(value: &str) -> Result<Group, String> {
    let sizes = Group::SIZES.map(|s| s.to_string()).join(", ");
    value.parse().ok().and_then(Group::new).ok_or_else(|| format!("must be one of {sizes}"))
}

/// A probability.
pub(crate) fn probability(value: &str) -> Result<f32, String> {
    let number: f32 = value.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("must be from 0 to 1".to_owned()) }
}

/// A CSV delimiter: one ASCII character, or `\t` or `tab`.
pub(crate) fn delimiter(value: &str) -> Result<u8, String> {
    match value.as_bytes() {
        b"\\t" | b"tab" => Ok(b'\t'),
        [b'"' | b'\n' | b'\r'] => Err("cannot be a quote or a line end".to_owned()),
        [b'0'..=b'9'] => Err("cannot be a digit: numbers would fall apart".to_owned()),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("must be one ASCII character, or \\t".to_owned()),
    }
}

/// Digits after the point; `None` are all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimals(pub(crate) Option<u8>);

/// A number of digits, or `all`.
pub(crate) fn decimals(value: &str) -> Result<Decimals, String> {
    match value.parse() {
        Ok(digits @ 0..=17) => Ok(Decimals(Some(digits))),
        _ if value == "all" => Ok(Decimals(None)),
        _ => Err("must be a number from 0 to 17, or all".to_owned()),
    }
}

/// Frames a second.
pub(crate) fn frame_rate(value: &str) -> Result<f64, String> {
    let number: f64 = value.parse().map_err(|_| "not a number".to_owned())?;
    if (0.001..=1000.0).contains(&number) { Ok(number) } else { Err("must be from 0.001 to 1000".to_owned()) }
}

/// A number of bytes, with or without K, M, G or T (of 1024 each) behind it.
pub(crate) fn bytes(value: &str) -> Result<u64, String> {
    let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match value[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        _ => return Err("a number of bytes such as 24G is needed".to_owned()),
    };
    let number: u64 =
        digits.parse().map_err(|_| "a whole number of bytes such as 24G is needed".to_owned())?;
    number
        .checked_mul(unit)
        .filter(|&n| n > 0)
        .ok_or_else(|| "a size of at least one byte is needed".to_owned())
}
