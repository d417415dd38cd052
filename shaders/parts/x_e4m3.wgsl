// The left operand of a product, rows of E4M3 codes. Whoever writes codes fills a row up to a multiple of four with zeros.
@group(0) @binding(2) var<storage, read> codes: array<u32>;

alias RawX = u32;

// Elements 4 k4 to 4 k4 + 3 of a row as they are stored; zeros where they do not count.
fn raw_x(row: u32, k4: u32, counts: bool) -> RawX {
    return select(0u, codes[row * params.x_stride + min(k4, params.x_stride - 1u)], counts);
}

fn decode_x(raw: RawX) -> vec4<f32> {
    return e4m3(raw);
}
