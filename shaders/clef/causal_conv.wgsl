// CausalConv: out[t, c] = silu(Σ_j w[c, j] · x[t − (J−1) + j, c]), zeros before a sequence's first row.
// Workgroup x: up to 32 rows of one sequence (a task), y: columns, one an invocation. With sigmoid.wgsl and task.wgsl.
struct Params {
    columns: u32,
    taps: u32,
    taps_stride: u32, // elements from one column's weights to the next
    x_stride: u32, // in elements
    x_start: u32,
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read> tasks: array<Task>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn causal_conv(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let task = tasks[group.x];
    let c = group.y * LANES + lane;
    if (c >= params.columns) {
        return;
    }
    let first = task.query - task.place;
    for (var t = task.query; t < task.query_end; t++) {
        var sum = 0.0;
        for (var j = 0u; j < params.taps; j++) {
            let back = params.taps - 1u - j;
            if (t >= first + back) {
                let v = x[(t - back) * params.x_stride + params.x_start + c];
                sum = fma(weight[c * params.taps_stride + j], v, sum);
            }
        }
        out[t * params.out_stride + c] = sum * sigmoid(sum);
    }
}
