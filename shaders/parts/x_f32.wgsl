// The left operand of a product, f32 rows; X is the type in which it is multiplied.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;

// Elements 4 k4 to 4 k4 + 3 of a row, zeros beyond its end.
fn x4(row: u32, k4: u32) -> vec4<X> {
    let v = x[row * params.x_stride + min(k4, params.x_stride - 1u)];
    return vec4<X>(round_x(head(v, inside(params.k, k4))));
}
