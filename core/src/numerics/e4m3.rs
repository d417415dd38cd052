//! OCP E4M3 "fn": 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinities, NaN = 0x7F and 0xFF, largest 448.

/// Value of a code.
pub fn decode(code: u8) -> f32 {
    let _ = code;
    0.0
}
