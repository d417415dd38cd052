// Two terms of Sum: out = left + right; or one more, out = out + right.
struct Params {
    rows: u32,
    stride: u32, // in groups of four elements
    more: u32, // whether the sum has begun
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> left: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> right: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn sum_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let c4 = group.x * LANES + lane;
    if (row >= bound(params.rows) || c4 >= params.stride) {
        return;
    }
    let at = row * params.stride + c4;
    if (params.more == 0u) {
        out[at] = left[at] + right[at];
    } else {
        out[at] = out[at] + right[at];
    }
}
