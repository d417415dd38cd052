// Division as IEEE has it: WGSL's own may be off by 2.5 units in the last place.

// a / b of two positive normal numbers whose quotient is normal, as bit patterns; rounded to nearest even.
fn quotient(a: u32, b: u32) -> u32 {
    let divisor = (b & 0x7fffffu) | 0x800000u;
    var rest = (a & 0x7fffffu) | 0x800000u;
    var exponent = i32(a >> 23u) - i32(b >> 23u) + 127;
    if (rest < divisor) {
        rest = rest << 1u;
        exponent -= 1;
    }
    // rest / divisor is in [1, 2): 24 binary digits of it, the remainder always doubled.
    var digits = 0u;
    for (var i = 0u; i < 24u; i++) {
        let digit = rest >= divisor;
        digits = (digits << 1u) | u32(digit);
        rest = select(rest, rest - divisor, digit) << 1u;
    }
    let up = rest > divisor || (rest == divisor && (digits & 1u) == 1u);
    return (u32(exponent - 1) << 23u) + digits + u32(up);
}
