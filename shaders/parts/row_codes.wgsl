// A row's scale and codes, by all invocations of its workgroup.
// From the step: params.stride, codes, scales, and `value`: bit patterns of four elements, zeros beyond the row's end. What
// `factor` is, is the step's affair. With reduce.wgsl and quantizer.wgsl.
fn quantize_row(lane: u32, row: u32, factor: f32) {
    let base = row * params.stride;
    var most = 0u;
    for (var i = lane; i < params.stride; i += LANES) {
        let v = value(base, i, factor) & vec4<u32>(0x7fffffffu);
        most = max(most, max(max(v.x, v.y), max(v.z, v.w)));
    }
    let scale = row_scale(max_lanes(lane, most));
    for (var i = lane; i < params.stride; i += LANES) {
        codes[base + i] = encode(value(base, i, factor), scale);
    }
    if (lane == 0u) {
        scales[row] = scale.bits;
    }
}
