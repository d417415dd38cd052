// PoolSpans: out[c] = mean(x[start..end]) summed in row order; zeros for an empty span.
struct Params {
    rows: u32,
    stride: u32, // in groups of four elements, of x and of out
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> spans: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn pool_spans(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let c4 = group.x * LANES + lane;
    if (row >= bound(params.rows) || c4 >= params.stride) {
        return;
    }
    let span = spans[row];
    var sum: vec4<f32>;
    for (var r = span.x; r < span.y; r++) {
        sum += x[r * params.stride + c4];
    }
    if (span.x < span.y) {
        sum /= f32(span.y - span.x);
    }
    out[row * params.stride + c4] = sum;
}
