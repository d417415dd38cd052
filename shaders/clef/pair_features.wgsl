// PairFeatures: out[r] = [f ; o ; f·o ; |f − o|] with f = left[owner[r]], o = right[r].
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // of left and right, in elements
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> left: array<f32>;
@group(0) @binding(3) var<storage, read> right: array<f32>;
@group(0) @binding(4) var<storage, read> owner: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn pair_features(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let c = group.x * LANES + lane;
    if (row >= bound(params.rows) || c >= params.width) {
        return;
    }
    let f = left[owner[row] * params.stride + c];
    let o = right[row * params.stride + c];
    let at = row * params.out_stride + c;
    out[at] = f;
    out[at + params.width] = o;
    out[at + 2u * params.width] = f * o;
    out[at + 3u * params.width] = abs(f - o);
}
