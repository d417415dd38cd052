// The left operand of a product, rows of E4M3 codes; exact in X.
@group(0) @binding(2) var<storage, read> codes: array<u32>;

// Elements 4 k4 to 4 k4 + 3 of a row, zeros beyond its end.
fn x4(row: u32, k4: u32) -> vec4<X> {
    let v = e4m3(codes[row * params.x_stride + min(k4, params.x_stride - 1u)]);
    return vec4<X>(head(v, inside(params.k, k4)));
}
