//! OCP E4M3 "fn": 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinities, NaN = 0x7F and 0xFF, largest 448.

/// Largest finite value.
pub const MAX: f32 = 448.0;

/// Value of every code; NaN at 0x7F and 0xFF.
pub static TABLE: [f32; 256] = table();

/// Value of a code.
#[inline]
pub const fn decode(code: u8) -> f32 {
    TABLE[code as usize]
}

/// Whether a code is one of the two NaNs.
#[inline]
pub const fn is_nan(code: u8) -> bool {
    code & 0x7F == 0x7F
}

/// Nearest code, ties to even. Saturates: everything beyond ±448, infinities too, becomes ±448. NaN becomes 0x7F with
/// the sign kept; zero keeps its sign.
#[inline]
pub const fn encode(x: f32) -> u8 {
    const SMALLEST_NORMAL: u32 = 0x3C80_0000; // 2^-6
    const LARGEST: u32 = MAX.to_bits();
    // At 2^14 one f32 step is 2^-9, the step of E4M3 subnormals: the addition rounds to that grid, ties to even.
    const SUBNORMAL_GRID: f32 = 16384.0;

    let bits = x.to_bits();
    let sign = ((bits >> 24) & 0x80) as u8;
    let abs = bits & 0x7FFF_FFFF;
    let code = if abs > 0x7F80_0000 {
        0x7F
    } else if abs >= LARGEST {
        0x7E
    } else if abs < SMALLEST_NORMAL {
        (f32::from_bits(abs) + SUBNORMAL_GRID).to_bits() - SUBNORMAL_GRID.to_bits()
    } else {
        // Keep 3 of 23 mantissa bits; a carry into the exponent is the right answer. Biases 127 and 7.
        let rounded = abs + 0x7_FFFF + ((abs >> 20) & 1);
        (rounded >> 20) - ((127 - 7) << 3)
    };
    sign | code as u8
}

const fn table() -> [f32; 256] {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let exponent = (code >> 3) & 15;
        let mantissa = code & 7;
        let value = if exponent == 15 && mantissa == 7 {
            f32::NAN
        } else if exponent == 0 {
            mantissa as f32 / 512.0
        } else {
            f32::from_bits(((exponent + 120) << 23 | mantissa << 20) as u32)
        };
        table[code] = if code & 0x80 == 0 { value } else { -value };
        code += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{TABLE, decode, encode, is_nan};

    #[test]
    fn every_finite_code_survives_a_round_trip() {
        for code in 0..=255u8 {
            if is_nan(code) {
                assert!(decode(code).is_nan());
            } else {
                assert_eq!(encode(decode(code)), code);
            }
        }
    }

    /// Nearest value by search, ties to the even code: the definition.
    fn nearest(x: f32) -> u8 {
        let abs = f64::from(x.abs());
        let distance = |code: u8| (f64::from(TABLE[usize::from(code)]) - abs).abs();
        let best =
            (0..0x7Fu8).min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
        best.expect("not empty") | if x.is_sign_negative() { 0x80 } else { 0 }
    }

    #[test]
    fn nearest_with_ties_to_even_everywhere() {
        for code in 0..0x7Eu8 {
            let (low, high) = (decode(code), decode(code + 1));
            let middle = (low + high) / 2.0;
            for x in [
                low,
                middle,
                f32::from_bits(middle.to_bits() - 1),
                f32::from_bits(middle.to_bits() + 1),
                high,
            ] {
                assert_eq!(encode(x), nearest(x), "{x}");
                assert_eq!(encode(-x), nearest(-x), "{x}");
            }
        }
    }

    #[test]
    fn edges() {
        assert_eq!(encode(0.0), 0);
        assert_eq!(encode(-0.0), 0x80);
        assert_eq!(encode(f32::from_bits(1)), 0);
        assert_eq!(encode(f32::INFINITY), 0x7E);
        assert_eq!(encode(f32::NEG_INFINITY), 0xFE);
        assert_eq!(encode(1e30), 0x7E);
        assert_eq!(encode(f32::NAN), 0x7F);
        assert_eq!(encode(-f32::NAN), 0xFF);
    }
}
