// LayerNorm: out = (x − mean) / √(var + eps) · w + b, population variance. One workgroup a row. With row_sums.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(LANES)
fn layer_norm(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    let base = row * params.stride;
    let width = f32(params.width);
    let mean = row_sum(lane, base) / width;
    let scale = 1.0 / sqrt(row_squares(lane, base, mean) / width + params.eps);
    for (var i = lane; i < params.stride; i += LANES) {
        out[base + i] = (x[base + i] - mean) * scale * weight[i] + bias[i];
    }
}
