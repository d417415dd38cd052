// RmsNormQuantize: RmsNorm and Quantize in one pass. One workgroup a row. With row_sums.wgsl and row_codes.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements, of x and of the codes
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> codes: array<u32>;
@group(0) @binding(5) var<storage, read_write> scales: array<u32>;

@compute @workgroup_size(LANES)
fn rms_norm_quantize(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    let squares = row_squares(lane, row * params.stride, 0.0);
    quantize_row(lane, row, 1.0 / sqrt(squares / f32(params.width) + params.eps));
}

fn value(base: u32, i: u32, scale: f32) -> vec4<u32> {
    return bitcast<vec4<u32>>(head(weight[i] * (x[base + i] * scale), inside(params.width, i)));
}
