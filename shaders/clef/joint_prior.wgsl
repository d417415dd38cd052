// JointScore, first half: out[r] = e^min(scale, ln 100) · u(lexical[r])·u(question[q] + summary[s]) with q = owner[r] and
// s = sequence[q], u(x) = x / max(‖x‖, 1e-12). One workgroup an option. With reduce.wgsl and mask.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements
    out_stride: u32, // in elements
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> question: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> summary: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> sequence: array<u32>;
@group(0) @binding(5) var<storage, read> lexical: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> owner: array<u32>;
@group(0) @binding(7) var<storage, read> scale: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(LANES)
fn joint_prior(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    let q = owner[row];
    let s = sequence[q];
    var product = 0.0;
    var left = 0.0;
    var right = 0.0;
    for (var i = lane; i < params.stride; i += LANES) {
        let elements = inside(params.width, i);
        let a = head(lexical[row * params.stride + i], elements);
        let b = head(question[q * params.stride + i] + summary[s * params.stride + i], elements);
        product += dot(a, b);
        left += dot(a, a);
        right += dot(b, b);
    }
    product = sum_lanes(lane, product);
    left = max(sqrt(sum_lanes(lane, left)), 1e-12);
    right = max(sqrt(sum_lanes(lane, right)), 1e-12);
    if (lane == 0u) {
        out[row * params.out_stride] = exp(min(scale[0], 4.6051702)) * (product / left / right);
    }
}
