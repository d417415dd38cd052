// SoftmaxPool: out[g] = Σ_r softmax_r(scale · x[r]·query[g]) x[r] over the rows of a group; zeros for an empty group.
// One workgroup a group. With reduce.wgsl and mask.wgsl.
struct Params {
    rows: u32, // groups
    width: u32,
    stride: u32, // in groups of four elements, of x, query and out
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> query: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> offsets: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(LANES)
fn softmax_pool(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let g = grid_row(group, groups);
    if (g >= bound(params.rows)) {
        return;
    }
    let first = offsets[g];
    let end = offsets[g + 1u];
    var highest = -3.0e38;
    var sum = 0.0;
    for (var r = first; r < end; r++) {
        let s = score(lane, r, g);
        let top = max(highest, s);
        sum = fma(sum, exp(highest - top), exp(s - top));
        highest = top;
    }
    // An invocation reads and writes columns of its own only.
    for (var i = lane; i < params.stride; i += LANES) {
        out[g * params.stride + i] = vec4<f32>();
    }
    for (var r = first; r < end; r++) {
        let weight = exp(score(lane, r, g) - highest) / sum;
        for (var i = lane; i < params.stride; i += LANES) {
            let at = g * params.stride + i;
            out[at] = fma(vec4<f32>(weight), x[r * params.stride + i], out[at]);
        }
    }
}

fn score(lane: u32, row: u32, g: u32) -> f32 {
    var sum = 0.0;
    for (var i = lane; i < params.stride; i += LANES) {
        let elements = inside(params.width, i);
        sum += dot(head(x[row * params.stride + i], elements), head(query[g * params.stride + i], elements));
    }
    return sum_lanes(lane, sum) * params.scale;
}
