// AddPositions: out[r] = x[r] + Σ weights[r, i] · table[taps[r, i]], four taps a row.
struct Params {
    rows: u32,
    stride: u32, // in groups of four elements, of x, table and out
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> table: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> taps: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> weights: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn add_positions(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let c4 = group.x * LANES + lane;
    if (row >= bound(params.rows) || c4 >= params.stride) {
        return;
    }
    let at = taps[row] * params.stride + c4;
    let w = weights[row];
    let sum = w.x * table[at.x] + w.y * table[at.y] + w.z * table[at.z] + w.w * table[at.w];
    out[row * params.stride + c4] = x[row * params.stride + c4] + sum;
}
