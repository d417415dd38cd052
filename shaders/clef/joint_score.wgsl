// JointScore, second half: out[r] += sigmoid(gate) · (e^min(scale, ln 100) · cos(field[q], option[r]) + residual[r]) with
// q = owner[r]; norms are at least 1e-8. One workgroup an option. With reduce.wgsl, mask.wgsl and sigmoid.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements
    residual_stride: u32, // in elements, and out's
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> field: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> option: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> owner: array<u32>;
@group(0) @binding(5) var<storage, read> residual: array<f32>;
@group(0) @binding(6) var<storage, read> scale: array<f32>;
@group(0) @binding(7) var<storage, read> gate: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(LANES)
fn joint_score(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    let q = owner[row];
    var product = 0.0;
    var left = 0.0;
    var right = 0.0;
    for (var i = lane; i < params.stride; i += LANES) {
        let elements = inside(params.width, i);
        let a = head(field[q * params.stride + i], elements);
        let b = head(option[row * params.stride + i], elements);
        product += dot(a, b);
        left += dot(a, a);
        right += dot(b, b);
    }
    product = sum_lanes(lane, product);
    left = max(sqrt(sum_lanes(lane, left)), 1e-8);
    right = max(sqrt(sum_lanes(lane, right)), 1e-8);
    if (lane == 0u) {
        let at = row * params.residual_stride;
        let joint = fma(exp(min(scale[0], 4.6051702)), product / left / right, residual[at]);
        out[at] = fma(sigmoid(gate[0]), joint, out[at]);
    }
}
