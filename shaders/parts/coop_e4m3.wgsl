// Operands of a cooperative product: E4M3 codes, sixteen at once.
//
// A code becomes an f16 by two shifts, which is its value times 2^-8, zero and denormals included; a factor in f32 brings
// that back, so that no f16 is a denormal.
@group(0) @binding(2) var<storage, read> codes: array<vec4<u32>>;

alias Word = vec4<u32>;
alias SixteenX = vec4<u32>;

fn fetch_x(row: u32, first: u32, part: u32) -> SixteenX {
    return codes[row + first + part];
}

fn put_x(at: u32, part: u32, v: SixteenX) {
    let to = at + 4u * part;
    tile_x[to] = halves(v.x);
    tile_x[to + 1u] = halves(v.y);
    tile_x[to + 2u] = halves(v.z);
    tile_x[to + 3u] = halves(v.w);
}

fn put_w(at: u32, v: Word) {
    tile_w[at] = halves(v.x);
    tile_w[at + 1u] = halves(v.y);
    tile_w[at + 2u] = halves(v.z);
    tile_w[at + 3u] = halves(v.w);
}

// Four codes to f16.
fn halves(word: u32) -> vec4<f16> {
    let even = ((word & 0x00800080u) << 8u) | ((word & 0x007f007fu) << 7u);
    let odd = (word & 0x80008000u) | ((word & 0x7f007f00u) >> 1u);
    return vec4<f16>(vec4<f32>(unpack2x16float(even), unpack2x16float(odd)) * 256.0);
}
