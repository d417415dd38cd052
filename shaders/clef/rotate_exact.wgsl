// The integer arithmetic of RotateQuantize: nothing depends on the order of sums, on fused operations or on a device's
// division. Values are put on a grid that the row's largest exponent gives and rotated in i32.
alias Number = i32;

// The grid's exponent: the row's largest biased one, at least 1.
fn prepare(top: u32) -> u32 {
    return max(top >> 7u, 1u);
}

// Bits by which the grid of groups of 1024 is coarser.
fn coarser() -> u32 {
    return 2u * max(params.digits, 4u) - 8u;
}

fn number(pattern: u32, largest: u32) -> i32 {
    // A bfloat16.
    let bits = pattern >> 16u;
    // A row that is not finite gets no codes; one below 2^-85 counts as zeros.
    if (largest >= 0xffu || largest <= 41u) {
        return 0;
    }
    let exponent = (bits >> 7u) & 0xffu;
    let significand = ((bits & 0x7fu) | select(0u, 0x80u, exponent != 0u)) << 7u;
    let shift = largest - max(exponent, 1u) + coarser();
    var whole = 0u;
    if (shift == 0u) {
        whole = significand;
    } else if (shift <= 15u) {
        whole = significand >> shift;
        let rest = significand & ((1u << shift) - 1u);
        let half = 1u << (shift - 1u);
        whole += u32(rest > half || (rest == half && (whole & 1u) == 1u));
    }
    return select(i32(whole), -i32(whole), (bits & 0x8000u) != 0u);
}

fn butterfly(a: i32, b: i32, c: i32, d: i32) -> array<i32, 4> {
    let s = (a + b) + (c + d);
    return array<i32, 4>(s - 2 * d, s - 2 * c, s - 2 * b, s - 2 * a);
}

fn magnitude(y: i32) -> u32 {
    return u32(abs(y));
}

// max(a·u/√G · f32(1/127), 1e-30) with the grid's unit u; only the last product rounds, and here in integers.
fn row_scale(top: u32, largest: u32, exponent: u32) -> u32 {
    if (top >= 0x7f80u) {
        return NAN;
    }
    if (largest == 0u) {
        return FLOOR;
    }
    // The largest value is at most 2^23: exact in f32, and so is the power of two.
    let step = i32(exponent) - 141 + i32(coarser()) - i32(params.digits);
    let lead = 31u - countLeadingZeros(largest);
    let amax_exponent = i32(lead) + step;
    if (amax_exponent > 127) {
        return NAN;
    }
    // f32(1/127) is 0x810204 · 2^-30. The product of two 24-bit significands has 47 or 48 bits.
    let product = multiply(largest << (23u - lead), 0x810204u);
    var significand = product.y;
    var scale_exponent = amax_exponent - 7;
    // product.y is the part from 2^23 on, product.x the 23 bits below.
    var rest = product.x;
    var tie = 0x400000u;
    if (significand >= 0x1000000u) {
        rest |= (significand & 1u) << 23u;
        tie = 0x800000u;
        significand = significand >> 1u;
        scale_exponent += 1;
    }
    significand += u32(rest > tie || (rest == tie && (significand & 1u) == 1u));
    // Below 2^-126 the floor wins anyway.
    if (scale_exponent < -120) {
        return FLOOR;
    }
    return max((u32(scale_exponent + 126) << 23u) + significand, FLOOR);
}

// The product of two 24-bit numbers: its low 23 bits, and what is above.
fn multiply(a: u32, b: u32) -> vec2<u32> {
    let low_a = (a & 0xfffu) * (b & 0xfffu);
    let low_b = (a >> 12u) * (b & 0xfffu);
    let high_a = (a & 0xfffu) * (b >> 12u);
    let high_b = (a >> 12u) * (b >> 12u);
    let middle = low_b + high_a + (low_a >> 12u);
    // value = high_b · 2^24 + middle · 2^12 + (low_a mod 2^12)
    let bits = ((middle & 0x7ffu) << 12u) | (low_a & 0xfffu);
    return vec2<u32>(bits, (high_b << 1u) + (middle >> 11u));
}

// RNE(127·y / a) as an exact quotient.
fn code(y: i32, scale: u32, largest: u32) -> u32 {
    let divisor = 2u * max(largest, 1u);
    let numerator = 254u * u32(abs(y)) + divisor / 2u;
    let q = numerator / divisor;
    let tie = numerator % divisor == 0u && (q & 1u) == 1u;
    let rounded = i32(q - u32(tie));
    return bitcast<u32>(select(rounded, -rounded, y < 0));
}
