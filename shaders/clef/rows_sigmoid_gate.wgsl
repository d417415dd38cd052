// Rows of SigmoidGate: out = x · sigmoid(gate), each head's gates where its own columns begin. With sigmoid.wgsl.
struct Params {
    rows: u32,
    columns: u32,
    stride: u32, // of x and out, in elements
    width: u32, // of a head
    gate_stride: u32, // of a row of gates
    gate_start: u32,
    gate_head: u32, // from one head's gates to the next
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> gate: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn rows_sigmoid_gate(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let c = group.x * LANES + lane;
    if (row >= bound(params.rows) || c >= params.columns) {
        return;
    }
    let at = params.gate_start + c / params.width * params.gate_head + c % params.width;
    let i = row * params.stride + c;
    out[i] = x[i] * sigmoid(gate[row * params.gate_stride + at]);
}
