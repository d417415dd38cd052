// Dot: out[l] = text[owner[l]] · classes[l]. One workgroup a label. With row_dot.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements, of text (left) and classes (right)
    out_stride: u32, // in elements
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> left: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> right: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> owner: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(LANES)
fn dot_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    let total = row_dot(lane, owner[row], row);
    if (lane == 0u) {
        out[row * params.out_stride] = total;
    }
}
