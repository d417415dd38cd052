// L2Normalize: out = x / (‖x‖₂ + eps). One workgroup a row. With row_sums.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(LANES)
fn l2_normalize(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    let base = row * params.stride;
    let norm = sqrt(row_squares(lane, base, 0.0)) + params.eps;
    for (var i = lane; i < params.stride; i += LANES) {
        out[base + i] = x[base + i] / norm;
    }
}
