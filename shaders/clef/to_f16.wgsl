// Rows in units of their scales, not rounded to codes, as binary16: at most 127, whatever the row holds. With half.wgsl.
@group(0) @binding(3) var<storage, read_write> rows: array<vec2<u32>>;

fn put(at: u32, y: array<Number, 4>, scale: u32, largest: u32, empty: bool) {
    let v = vec4<f32>(in_units(y[0], scale), in_units(y[1], scale), in_units(y[2], scale), in_units(y[3], scale));
    let half = to_half(v);
    // A product's loops need not agree on denormals.
    let kept = select(half, vec4<f32>(), (abs(half) < vec4<f32>(0.00006103515625)) | vec4<bool>(empty));
    rows[at] = vec2<u32>(pack2x16float(kept.xy), pack2x16float(kept.zw));
}
