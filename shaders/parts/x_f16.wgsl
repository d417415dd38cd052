// The left operand of a product, rows of binary16, two a word. Whoever writes them fills a row up to a multiple of four
// with zeros.
@group(0) @binding(2) var<storage, read> x: array<vec2<u32>>;

alias RawX = vec4<f32>;

// Elements 4 k4 to 4 k4 + 3 of a row, zeros where they do not count.
fn raw_x(row: u32, k4: u32, counts: bool) -> RawX {
    let v = x[row * params.x_stride + min(k4, params.x_stride - 1u)];
    return select(vec4<f32>(), vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)), counts);
}

fn decode_x(raw: RawX) -> vec4<f32> {
    return raw;
}
