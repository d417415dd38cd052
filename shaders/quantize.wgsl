// Quantize: per-row dynamic FP8. One workgroup a row. With row_codes.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements, of x and of the codes
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> codes: array<u32>;
@group(0) @binding(4) var<storage, read_write> scales: array<u32>;

@compute @workgroup_size(LANES)
fn quantize(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    quantize_row(lane, row, 1.0);
}

fn value(base: u32, i: u32, unused: f32) -> vec4<u32> {
    let inside = vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(params.width - 4u * i);
    return select(vec4<u32>(), x[base + i], inside);
}
