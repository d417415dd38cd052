// Operands of a cooperative product: rows of f16, four groups of four at once, each an eighth of a tile's depth further on;
// weights of INT8, sixteen at once. The row stride of x is in groups of four.
@group(0) @binding(2) var<storage, read> x: array<vec4<f16>>;

alias Word = vec4<u32>;

struct SixteenX {
    a: vec4<f16>,
    b: vec4<f16>,
    c: vec4<f16>,
    d: vec4<f16>,
}

fn fetch_x(row: u32, first: u32, part: u32) -> SixteenX {
    let at = row + 4u * first + part;
    return SixteenX(x[at], x[at + 8u], x[at + 16u], x[at + 24u]);
}

fn put_x(at: u32, part: u32, v: SixteenX) {
    let to = at + part;
    tile_x[to] = v.a.xzyw;
    tile_x[to + 8u] = v.b.xzyw;
    tile_x[to + 16u] = v.c.xzyw;
    tile_x[to + 24u] = v.d.xzyw;
}

fn put_w(at: u32, v: Word) {
    tile_w[at] = halves(v.x);
    tile_w[at + 1u] = halves(v.y);
    tile_w[at + 2u] = halves(v.z);
    tile_w[at + 3u] = halves(v.w);
}

// Four codes to f16: with its sign bit turned, a code is the lowest byte of the binary16 that is 1152 more.
fn halves(word: u32) -> vec4<f16> {
    let turned = word ^ 0x80808080u;
    let even = (turned & 0x00ff00ffu) | 0x64006400u;
    let odd = ((turned >> 8u) & 0x00ff00ffu) | 0x64006400u;
    return vec4<f16>(vec4<f32>(unpack2x16float(even), unpack2x16float(odd)) - 1152.0);
}
