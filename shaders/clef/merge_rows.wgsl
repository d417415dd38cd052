// MergeRows: consecutive rows side by side, out[r] = [x[m·r] ; x[m·r + 1] ; …]. With one row each, a copy.
struct Params {
    rows: u32,
    columns: u32, // of out
    width: u32, // of a row of x
    factor: u32,
    x_stride: u32, // in elements
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn merge_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let c = group.x * LANES + lane;
    if (row < bound(params.rows) && c < params.columns) {
        let source = row * params.factor + c / params.width;
        out[row * params.out_stride + c] = x[source * params.x_stride + c % params.width];
    }
}
