// GatedDelta, first half: what a chunk of up to 32 rows of one sequence is for a value head, without the state before it.
// With G_i the sum of the logarithmic decay up to row i of the chunk and D_ij = e^(G_i − G_j), a record holds
//
//   G, β, 1/‖k‖, 1/(‖q‖·√d_k)                   32 each
//   (I + A)⁻¹ with A = tril(β·k̂ k̂ᵀ · D, −1)     32 × 32
//   tril(q̂ k̂ᵀ · D)                              32 × 32
//
// Workgroup x: chunk (a task), y: value head. With sigmoid.wgsl and task.wgsl.
struct Params {
    stride: u32, // of x, in elements
    gates_stride: u32,
    key_heads: u32,
    value_heads: u32,
    key_dim: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> gates: array<f32>;
@group(0) @binding(4) var<storage, read> decay: array<f32>;
@group(0) @binding(5) var<storage, read> decay_bias: array<f32>;
@group(0) @binding(6) var<storage, read> tasks: array<Task>;
@group(0) @binding(7) var<storage, read_write> records: array<f32>;

const EPS: f32 = 1e-6;
const RECORD: u32 = 2176u;

var<workgroup> log_decay: array<f32, 32>;
var<workgroup> total_decay: array<f32, 32>;
var<workgroup> beta: array<f32, 32>;
var<workgroup> k_factor: array<f32, 32>;
var<workgroup> q_factor: array<f32, 32>;
var<workgroup> a: array<f32, 1024>;
var<workgroup> solved: array<f32, 1024>;

@compute @workgroup_size(64)
fn delta_chunks(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let task = tasks[group.x];
    let head = group.y;
    let rows = task.query_end - task.query;
    let key_head = head / (params.value_heads / params.key_heads);
    let q_start = key_head * params.key_dim;
    let k_start = params.key_heads * params.key_dim + q_start;
    let record = (group.x * params.value_heads + head) * RECORD;

    // Rows beyond the end count as zeros.
    let i = lane % 32u;
    let row = task.query + min(i, rows - 1u);
    let mine = row * params.stride + select(q_start, k_start, lane < 32u);
    var squares = 0.0;
    for (var d = 0u; d < params.key_dim; d++) {
        let v = x[mine + d];
        squares = fma(v, v, squares);
    }
    let factor = select(0.0, 1.0 / sqrt(squares + EPS), i < rows);
    if (lane < 32u) {
        let g = gates[row * params.gates_stride + head];
        let b = gates[row * params.gates_stride + params.value_heads + head];
        let own = -exp(decay[head]) * softplus(g + decay_bias[head]);
        log_decay[i] = select(0.0, own, i < rows);
        beta[i] = select(0.0, sigmoid(b), i < rows);
        k_factor[i] = factor;
    } else {
        q_factor[i] = factor / sqrt(f32(params.key_dim));
    }
    workgroupBarrier();
    if (lane < 32u) {
        var sum = 0.0;
        for (var j = 0u; j <= i; j++) {
            sum += log_decay[j];
        }
        total_decay[i] = sum;
        records[record + i] = sum;
        records[record + 32u + i] = beta[i];
        records[record + 64u + i] = k_factor[i];
        records[record + 96u + i] = q_factor[i];
    }
    workgroupBarrier();

    // An invocation has half a column of both products.
    let other = row * params.stride + k_start;
    for (var n = 0u; n < 16u; n++) {
        let r = 2u * n + lane / 32u;
        var kk = 0.0;
        var qk = 0.0;
        if (i <= r && r < rows) {
            let at = (task.query + r) * params.stride;
            for (var d = 0u; d < params.key_dim; d++) {
                let v = x[other + d];
                kk = fma(x[at + k_start + d], v, kk);
                qk = fma(x[at + q_start + d], v, qk);
            }
            let between = k_factor[i] * exp(total_decay[r] - total_decay[i]);
            kk *= beta[r] * k_factor[r] * between;
            qk *= q_factor[r] * between;
        }
        a[r * 32u + i] = select(0.0, kk, i < r);
        records[record + 1152u + r * 32u + i] = qk;
    }
    workgroupBarrier();

    // Columns of the inverse, one an invocation, by forward substitution. No invocation reads another's column.
    if (lane < 32u) {
        for (var r = 0u; r < 32u; r++) {
            var sum = select(0.0, 1.0, r == i);
            for (var j = i; j < r; j++) {
                sum = fma(-a[r * 32u + j], solved[j * 32u + i], sum);
            }
            solved[r * 32u + i] = sum;
            records[record + 128u + r * 32u + i] = sum;
        }
    }
}

// ln(1 + eˣ) as max(x, 0) + ln(1 + e⁻|ˣ|), the logarithm as 2·artanh(e / (2 + e)): nothing cancels, and a device's own
// logarithm may be off by 2⁻²¹ near 1.
fn softplus(x: f32) -> f32 {
    let e = exp(max(-abs(x), -80.0));
    let s = e / (2.0 + e);
    let t = s * s;
    var p = fma(t, 1.0 / 15.0, 1.0 / 13.0);
    p = fma(t, p, 1.0 / 11.0);
    p = fma(t, p, 1.0 / 9.0);
    p = fma(t, p, 1.0 / 7.0);
    p = fma(t, p, 1.0 / 5.0);
    p = fma(t, p, 1.0 / 3.0);
    return max(x, 0.0) + 2.0 * fma(s * t, p, s);
}
