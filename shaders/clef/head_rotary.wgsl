// One part of HeadRotary: its heads, with or without a zero-centred RMS norm, turned. One workgroup a head of a row.
// With reduce.wgsl.
struct Params {
    rows: u32,
    stride: u32, // of x, in elements
    start: u32,
    head_stride: u32, // from one head to the next
    width: u32,
    out_stride: u32,
    out_start: u32, // column of the part's first head
    half: u32, // frequencies
    normed: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
// Cosine and sine of every frequency of every row.
@group(0) @binding(4) var<storage, read> turns: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(LANES)
fn head_rotary(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    let base = row * params.stride + params.start + group.x * params.head_stride;
    var scale = 1.0;
    if (params.normed != 0u) {
        var squares = 0.0;
        for (var i = lane; i < params.width; i += LANES) {
            let v = x[base + i];
            squares = fma(v, v, squares);
        }
        scale = 1.0 / sqrt(sum_lanes(lane, squares) / f32(params.width) + params.eps);
    }
    let place = row * params.out_stride + params.out_start + group.x * params.width;
    for (var i = lane; i < params.width; i += LANES) {
        var y = element(base, i, scale);
        if (i < 2u * params.half) {
            let first = i < params.half;
            let turn = turns[row * params.half + select(i - params.half, i, first)];
            let other = element(base, select(i - params.half, i + params.half, first), scale);
            y = fma(y, turn.x, other * select(turn.y, -turn.y, first));
        }
        out[place + i] = y;
    }
}

fn element(base: u32, i: u32, scale: f32) -> f32 {
    let v = x[base + i];
    if (params.normed == 0u) {
        return v;
    }
    return (v * scale) * (1.0 + weight[i]);
}
