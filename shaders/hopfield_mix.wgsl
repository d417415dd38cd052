// HopfieldMix: a = softmax(beta · query·key[owner]) over the labels of a sequence, out = classes + a · value[owner].
// One workgroup a sequence; the products are computed twice instead of being kept. Query and key are
// `left` and `right` of row_dot.wgsl.
struct Params {
    width: u32,
    stride: u32, // in groups of four elements, of every matrix
    beta: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> left: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> right: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> value: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> classes: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> offsets: array<u32>;
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(LANES)
fn hopfield_mix(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let sequence = grid_row(group, groups);
    if (sequence >= bound(1u)) {
        return;
    }
    let first = offsets[sequence];
    let end = offsets[sequence + 1u];
    var highest = -3.0e38;
    var sum = 0.0;
    for (var label = first; label < end; label++) {
        let s = similarity(lane, label, sequence);
        let top = max(highest, s);
        sum = sum * exp(highest - top) + exp(s - top);
        highest = top;
    }
    for (var label = first; label < end; label++) {
        let a = exp(similarity(lane, label, sequence) - highest) / sum;
        for (var i = lane; i < params.stride; i += LANES) {
            let at = label * params.stride + i;
            out[at] = classes[at] + a * value[sequence * params.stride + i];
        }
    }
}

fn similarity(lane: u32, label: u32, sequence: u32) -> f32 {
    return params.beta * row_dot(lane, label, sequence);
}
