// Concat: out[r] = [left[left_rows[r]] ; right[r]].
struct Params {
    rows: u32,
    left: u32, // widths
    right: u32,
    left_stride: u32, // in elements
    right_stride: u32,
    out_stride: u32,
    mapped: u32, // whether left_rows counts
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> left: array<f32>;
@group(0) @binding(3) var<storage, read> left_rows: array<u32>;
@group(0) @binding(4) var<storage, read> right: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn concat(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let column = group.x * LANES + lane;
    if (row >= bound(params.rows) || column >= params.left + params.right) {
        return;
    }
    var y: f32;
    if (column < params.left) {
        var source = row;
        if (params.mapped != 0u) {
            source = left_rows[row];
        }
        y = left[source * params.left_stride + column];
    } else {
        y = right[row * params.right_stride + column - params.left];
    }
    out[row * params.out_stride + column] = y;
}
