// PairProduct: out = [t₁ ; c₁ ; t₂·c₂] with t = text[owner] and halves 1 and 2.
struct Params {
    rows: u32,
    half: u32, // width of a half
    stride: u32, // of text and classes, in elements
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> text: array<f32>;
@group(0) @binding(3) var<storage, read> classes: array<f32>;
@group(0) @binding(4) var<storage, read> owner: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn pair_product(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let column = group.x * LANES + lane;
    if (row >= bound(params.rows) || column >= 3u * params.half) {
        return;
    }
    let t = owner[row] * params.stride;
    let c = row * params.stride;
    var y: f32;
    if (column < params.half) {
        y = text[t + column];
    } else if (column < 2u * params.half) {
        y = classes[c + column - params.half];
    } else {
        y = text[t + column - params.half] * classes[c + column - params.half];
    }
    out[row * params.out_stride + column] = y;
}
