// The second half of ReplaceRows: out[rows[r]] = from[r], over rows that were copied before.
struct Params {
    rows: u32,
    stride: u32, // in groups of four elements
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> placed: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn place_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let c4 = group.x * LANES + lane;
    if (row < bound(params.rows) && c4 < params.stride) {
        out[rows[row] * params.stride + c4] = placed[row * params.stride + c4];
    }
}
