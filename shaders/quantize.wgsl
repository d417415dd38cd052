// Quantize: per-row dynamic FP8. One workgroup a row. With quantizer.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements, of x and of the codes
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> codes: array<u32>;
@group(0) @binding(4) var<storage, read_write> scales: array<u32>;

override LANES: u32 = 64u;

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
    let base = row * params.stride;
    var most = 0u;
    for (var i = lane; i < params.stride; i += LANES) {
        let v = element(base, i) & vec4<u32>(0x7fffffffu);
        most = max(most, max(max(v.x, v.y), max(v.z, v.w)));
    }
    most = max_lanes(lane, most);
    let scale = row_scale(most);
    let empty = is_empty(most);
    for (var i = lane; i < params.stride; i += LANES) {
        codes[base + i] = encode(element(base, i), scale, empty);
    }
    if (lane == 0u) {
        scales[row] = scale;
    }
}

fn element(base: u32, i: u32) -> vec4<u32> {
    let inside = vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(params.width - 4u * i);
    return select(vec4<u32>(), x[base + i], inside);
}
