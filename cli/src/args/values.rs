//! Parsers of single argument values.

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
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("must be one ASCII character, or \\t".to_owned()),
    }
}
