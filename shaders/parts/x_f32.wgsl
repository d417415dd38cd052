// The left operand of a product, f32 rows; X is the type in which it is multiplied.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;

alias RawX = vec4<f32>;

// Elements 4 k4 to 4 k4 + 3 of a row, zeros beyond its end and where they do not count.
fn raw_x(row: u32, k4: u32, counts: bool) -> RawX {
    let v = x[row * params.x_stride + min(k4, params.x_stride - 1u)];
    return head(v, select(0u, inside(params.k, k4), counts));
}

fn decode_x(raw: RawX) -> vec4<f32> {
    return raw;
}
