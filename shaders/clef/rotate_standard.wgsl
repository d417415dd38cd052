// The f32 arithmetic of RotateQuantize. Doubling and the power of two at the end are exact, so that fused operations change
// nothing; the two divisions are done in integers. With ieee.wgsl.
alias Number = f32;

fn prepare(top: u32) -> u32 {
    return top;
}

fn number(pattern: u32, top: u32) -> f32 {
    return bitcast<f32>(select(pattern, 0u, top >= 0x7f80u));
}

fn butterfly(a: f32, b: f32, c: f32, d: f32) -> array<f32, 4> {
    let s = (a + b) + (c + d);
    return array<f32, 4>(s - 2.0 * d, s - 2.0 * c, s - 2.0 * b, s - 2.0 * a);
}

// Without the sign, bit patterns order like the values; before the power of two.
fn magnitude(y: f32) -> u32 {
    return bitcast<u32>(normalized(y)) & 0x7fffffffu;
}

fn normalized(y: f32) -> f32 {
    return y * bitcast<f32>((127u - params.digits) << 23u);
}

fn row_scale(top: u32, largest: u32, grid: u32) -> u32 {
    if (top >= 0x7f80u || largest >= 0x7f800000u) {
        return NAN;
    }
    // Below 2^-93 the floor wins.
    if (largest < 0x11000000u) {
        return FLOOR;
    }
    return max(quotient(largest, 0x42fe0000u), FLOOR);
}

// A value in units of the row's scale.
fn in_units(y: f32, scale: u32) -> f32 {
    let reciprocal = bitcast<f32>(quotient(0x3f800000u, scale));
    return clamp(normalized(y) * reciprocal, -127.0, 127.0);
}

fn code(y: f32, scale: u32, largest: u32) -> u32 {
    if (scale == NAN) {
        return 0u;
    }
    // round() takes ties to even.
    return bitcast<u32>(i32(round(in_units(y, scale))));
}
