// Scale: out = x · by.
struct Params {
    rows: u32,
    stride: u32, // in elements, of x and of out
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> by: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn scale(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let column = group.x * LANES + lane;
    if (row < bound(params.rows) && column < params.stride) {
        let at = row * params.stride + column;
        out[at] = x[at] * by[0];
    }
}
