// Rows in units of their scales, not rounded to codes.
@group(0) @binding(3) var<storage, read_write> rows: array<vec4<f32>>;

fn put(at: u32, y: array<Number, 4>, scale: u32, largest: u32, empty: bool) {
    let v = vec4<f32>(in_units(y[0], scale), in_units(y[1], scale), in_units(y[2], scale), in_units(y[3], scale));
    rows[at] = select(v, vec4<f32>(), vec4<bool>(empty));
}
