// RmsNormQuantize: RmsNorm and Quantize in one pass. One workgroup a row. With reduce.wgsl and quantizer.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements, of x and of the codes
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> codes: array<u32>;
@group(0) @binding(5) var<storage, read_write> scales: array<u32>;

@compute @workgroup_size(LANES)
fn rms_norm_quantize(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    let base = row * params.stride;
    var squares = 0.0;
    for (var i = lane; i < params.stride; i += LANES) {
        let v = head(x[base + i], inside(params.width, i));
        squares += dot(v, v);
    }
    let rms = 1.0 / sqrt(sum_lanes(lane, squares) / f32(params.width) + params.eps);
    var most = 0u;
    for (var i = lane; i < params.stride; i += LANES) {
        let v = normed(base, i, rms) & vec4<u32>(0x7fffffffu);
        most = max(most, max(max(v.x, v.y), max(v.z, v.w)));
    }
    most = max_lanes(lane, most);
    let scale = row_scale(most);
    let empty = is_empty(most);
    for (var i = lane; i < params.stride; i += LANES) {
        codes[base + i] = encode(normed(base, i, rms), scale, empty);
    }
    if (lane == 0u) {
        scales[row] = scale;
    }
}

fn normed(base: u32, i: u32, rms: f32) -> vec4<u32> {
    return bitcast<vec4<u32>>(head(weight[i] * (x[base + i] * rms), inside(params.width, i)));
}
