// The row quantizer of FP8 W8A8, bit for bit: s = max|x| / 448 and code = e4m3(x / s) with IEEE division.
//
// WGSL's division may be off by 2.5 units in the last place and may flush denormals. So scales are divided in integers,
// and a quotient is taken from the device's division only where 16 units could not change the code; the few others are
// divided in integers too. Everything here works on bit patterns without the sign.

const INFINITY: u32 = 0x7f800000u;
const MAX_E4M3: u32 = 0x43e00000u; // 448

struct RowScale {
    bits: u32,
    // Whether the row's codes are zero whatever its values: all zero, or not finite.
    empty: bool,
}

// A row's scale from its largest magnitude: 1 where the quotient is zero, NaN where the row is not finite.
fn row_scale(most: u32) -> RowScale {
    if (most >= INFINITY) {
        return RowScale(0x7fc00000u, true);
    }
    let quotient = over_448(most);
    return RowScale(select(quotient, 0x3f800000u, quotient == 0u), quotient == 0u);
}

// A positive finite number / 448, rounded to nearest even. 448 is 7 · 2^6, and a remainder of sevenths is never a tie.
fn over_448(a: u32) -> u32 {
    let exponent = a >> 23u;
    if (exponent < 10u) {
        // Perhaps a denormal.
        return divide(a, MAX_E4M3);
    }
    let significand = (a & 0x7fffffu) | 0x800000u;
    let small = significand < 0xe00000u;
    // In [2^23, 2^24).
    let shifted = select(significand << 2u, significand << 3u, small);
    let quotient = shifted / 7u;
    let up = shifted - 7u * quotient > 3u;
    return ((exponent - select(9u, 10u, small)) << 23u) + quotient + u32(up);
}

// Four values to four codes.
fn encode(v: vec4<u32>, scale: RowScale) -> u32 {
    if (scale.empty) {
        return 0u;
    }
    let bits = scale.bits;
    return encode_one(v.x, bits) | (encode_one(v.y, bits) << 8u) | (encode_one(v.z, bits) << 16u)
        | (encode_one(v.w, bits) << 24u);
}

fn encode_one(value: u32, scale: u32) -> u32 {
    let sign = (value >> 24u) & 0x80u;
    let magnitude = value & 0x7fffffffu;
    var code = 0u;
    // Away from denormals on both sides the device's division is good to a few units.
    var sure = magnitude >= 0x01000000u && scale >= 0x01000000u;
    if (sure) {
        let near = round_e4m3(bitcast<u32>(bitcast<f32>(magnitude) / bitcast<f32>(scale)));
        code = near.x;
        sure = near.y > 16u;
    }
    if (!sure) {
        code = round_e4m3(divide(magnitude, scale)).x;
    }
    return sign | code;
}

// The code nearest to a value, ties to even, saturating; and how far the value is from the nearest tie, in its own
// units in the last place.
fn round_e4m3(bits: u32) -> vec2<u32> {
    if (bits >= MAX_E4M3) {
        return vec2<u32>(0x7eu, 0xffffffffu);
    }
    let exponent = bits >> 23u;
    let significand = (bits & 0x7fffffu) | 0x800000u;
    // Bits to drop: 20, and more below 2^-6 (exponent field 121), where E4M3 has a fixed step.
    let drop = 20u + 121u - min(exponent, 121u);
    if (drop > 25u) {
        return vec2<u32>(0u, 0xffffffffu);
    }
    let rest = significand & ((1u << drop) - 1u);
    let tie = 1u << (drop - 1u);
    var code = significand >> drop;
    code += select(0u, 1u, rest > tie || (rest == tie && (code & 1u) == 1u));
    // The hidden bit, where it is still there, adds one to the exponent field.
    if (exponent >= 121u) {
        code += (exponent - 121u) << 3u;
    }
    return vec2<u32>(code, select(tie - rest, rest - tie, rest > tie));
}

// a / b of two positive finite numbers, rounded to nearest even, denormals included.
fn divide(a: u32, b: u32) -> u32 {
    if (a == 0u) {
        return 0u;
    }
    let n = normalize(a);
    let d = normalize(b);
    var exponent = i32(n.y) - i32(d.y) + 127;
    var rest = n.x;
    if (n.x < d.x) {
        rest = n.x << 1u;
        exponent -= 1;
    }
    // rest / d.x is in [1, 2): 24 binary digits of it, the remainder always doubled.
    var quotient = 0u;
    for (var i = 0u; i < 24u; i++) {
        let digit = rest >= d.x;
        quotient = (quotient << 1u) | u32(digit);
        rest = select(rest, rest - d.x, digit) << 1u;
    }
    if (exponent >= 1) {
        let up = rest > d.x || (rest == d.x && (quotient & 1u) == 1u);
        return (u32(exponent - 1) << 23u) + quotient + u32(up);
    }
    let drop = u32(1 - exponent);
    if (drop > 24u) {
        return 0u;
    }
    let low = quotient & ((1u << drop) - 1u);
    let tie = 1u << (drop - 1u);
    quotient = quotient >> drop;
    let up = low > tie || (low == tie && (rest != 0u || (quotient & 1u) == 1u));
    return quotient + u32(up);
}

// A positive finite number as a significand in [2^23, 2^24) and the exponent field that goes with it, which is below
// one for denormals (as a two's complement number).
fn normalize(bits: u32) -> vec2<u32> {
    let exponent = bits >> 23u;
    if (exponent > 0u) {
        return vec2<u32>((bits & 0x7fffffu) | 0x800000u, exponent);
    }
    let shift = countLeadingZeros(bits) - 8u;
    return vec2<u32>(bits << shift, 1u - shift);
}
