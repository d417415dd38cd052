// Four E4M3 codes of four rows, turned over and decoded, for a staged_codes*.wgsl.
//
// A code becomes a binary16 by shifts alone: that is its value times 2^-8, zero and denormals included. Every term is
// 2^-16 of what it should be, and so is the sum.
const BACK: f32 = 65536.0;

struct Quad {
    k0: Xs,
    k1: Xs,
    k2: Xs,
    k3: Xs,
}

alias QuadX = Quad;
alias QuadW = Quad;

fn quad_x(a: u32, b: u32, c: u32, d: u32) -> Quad {
    return quad(a, b, c, d);
}

fn quad_w(a: u32, b: u32, c: u32, d: u32) -> Quad {
    return quad(a, b, c, d);
}

fn quad(a: u32, b: u32, c: u32, d: u32) -> Quad {
    // Codes 0 and 1 of two rows, then codes 2 and 3.
    let ab = (a & 0xffffu) | (b << 16u);
    let cd = (c & 0xffffu) | (d << 16u);
    let more_ab = (a >> 16u) | (b & 0xffff0000u);
    let more_cd = (c >> 16u) | (d & 0xffff0000u);
    return Quad(
        pack(upper_halves(ab << 8u), upper_halves(cd << 8u)),
        pack(upper_halves(ab), upper_halves(cd)),
        pack(upper_halves(more_ab << 8u), upper_halves(more_cd << 8u)),
        pack(upper_halves(more_ab), upper_halves(more_cd)),
    );
}

// The codes in bytes 1 and 3 as binary16.
fn upper_halves(word: u32) -> u32 {
    return (word & 0x80008000u) | ((word & 0x7f007f00u) >> 1u);
}
