// Rows of GatedRmsNorm: per head out = x · rsqrt(mean(x²) + eps) · w · silu(gate). One workgroup a head of a row.
// With reduce.wgsl and sigmoid.wgsl.
struct Params {
    rows: u32,
    width: u32, // of a head
    stride: u32, // of x and out, in elements
    gate_stride: u32,
    gate_start: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> gate: array<f32>;
@group(0) @binding(4) var<storage, read> weight: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(LANES)
fn rows_gated_rms(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    let base = row * params.stride + group.x * params.width;
    let gates = row * params.gate_stride + params.gate_start + group.x * params.width;
    var squares = 0.0;
    for (var i = lane; i < params.width; i += LANES) {
        let v = x[base + i];
        squares = fma(v, v, squares);
    }
    let scale = 1.0 / sqrt(sum_lanes(lane, squares) / f32(params.width) + params.eps);
    for (var i = lane; i < params.width; i += LANES) {
        let z = gate[gates + i];
        out[base + i] = x[base + i] * scale * weight[i] * (z * sigmoid(z));
    }
}
