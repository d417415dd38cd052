// Rows of RmsNorm: out = x · rsqrt(mean(x²) + eps) · (1 + w). One workgroup a row. With reduce.wgsl and mask.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(LANES)
fn rows_rms(
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
    let scale = 1.0 / sqrt(sum_lanes(lane, squares) / f32(params.width) + params.eps);
    for (var i = lane; i < params.stride; i += LANES) {
        out[base + i] = (x[base + i] * scale) * (weight[i] + 1.0);
    }
}
