// BiLstm, one direction: the recurrence, after linear.wgsl has computed W·x + b of every row. With a format: the
// recurrent weight's. One workgroup a sequence; i, f, g, o = projected + U·h + b; c = σ(f)·c + σ(i)·tanh(g);
// h = σ(o)·tanh(c).
struct Params {
    hidden: u32,
    projected_stride: u32, // in elements
    out_stride: u32,
    out_start: u32, // first column
    backward: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> projected: array<f32>; // [rows, 4 hidden]
@group(0) @binding(3) var<storage, read> weight: array<Word>; // [4 hidden, hidden], rows padded with zeros
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read> offsets: array<u32>;
@group(0) @binding(6) var<storage, read> lengths: array<u32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;

override LANES: u32 = 64u;
override HIDDEN: u32 = 64u; // hidden, rounded up to a multiple of four

var<workgroup> h: array<f32, HIDDEN>;
var<workgroup> c: array<f32, HIDDEN>;

@compute @workgroup_size(LANES)
fn lstm(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let sequence = grid_row(group, groups);
    if (sequence >= bound(1u)) {
        return;
    }
    let first = offsets[sequence];
    let rows = offsets[sequence + 1u] - first;
    let count = min(lengths[sequence], rows);
    for (var j = lane; j < HIDDEN; j += LANES) {
        h[j] = 0.0;
        c[j] = 0.0;
    }
    workgroupBarrier();
    for (var t = 0u; t < count; t++) {
        let row = first + select(t, count - 1u - t, params.backward != 0u);
        let place = row * params.out_stride + params.out_start;
        for (var j = lane; j < params.hidden; j += LANES) {
            let i = gate(row, 0u, j);
            let f = gate(row, 1u, j);
            let g = gate(row, 2u, j);
            let o = gate(row, 3u, j);
            c[j] = sigmoid(f) * c[j] + sigmoid(i) * tangent(g);
            out[place + j] = sigmoid(o) * tangent(c[j]);
        }
        workgroupBarrier();
        for (var j = lane; j < params.hidden; j += LANES) {
            h[j] = out[place + j];
        }
        workgroupBarrier();
    }
    for (var t = count; t < rows; t++) {
        for (var j = lane; j < params.hidden; j += LANES) {
            out[(first + t) * params.out_stride + params.out_start + j] = 0.0;
        }
    }
}

fn gate(row: u32, which: u32, j: u32) -> f32 {
    let r = which * params.hidden + j;
    var sum = 0.0;
    for (var k4 = 0u; k4 < HIDDEN / 4u; k4++) {
        let w = decode(weight[r * (HIDDEN / 4u) + k4]);
        sum = fma(w.x, h[4u * k4], sum);
        sum = fma(w.y, h[4u * k4 + 1u], sum);
        sum = fma(w.z, h[4u * k4 + 2u], sum);
        sum = fma(w.w, h[4u * k4 + 3u], sum);
    }
    return projected[row * params.projected_stride + r] + sum + bias[r];
}

fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(min(-x, 80.0)));
}

// tanh, which drivers may compute to 11 bits only.
fn tangent(x: f32) -> f32 {
    let t = exp(-2.0 * abs(x));
    return sign(x) * (1.0 - t) / (1.0 + t);
}
