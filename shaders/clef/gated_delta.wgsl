// GatedDelta, second half: the chunks of a sequence one after the other, for a value head and sixteen of its columns, with
// the state S in workgroup memory. With a chunk's record from delta_chunks.wgsl:
//
//   R = β · (V − e^G · (K̂ S))        V' = (I + A)⁻¹ R
//   out = e^G · (Q̂ S) + tril(Q̂ K̂ᵀ · D) V'
//   S ← e^(G_C) S + (K̂ · e^(G_C − G))ᵀ V'
//
// Columns of S do not depend on each other. Workgroup x: columns and head, y and z: sequence. An invocation has a row of a
// chunk and four columns.
struct Params {
    stride: u32, // of x, in elements
    out_stride: u32,
    key_heads: u32,
    value_heads: u32,
    key_dim: u32,
    value_dim: u32,
    blocks: u32, // of sixteen columns
    sequences: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> records: array<f32>;
@group(0) @binding(4) var<storage, read> offsets: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const RECORD: u32 = 2176u;
override KEY_DIM: u32 = 128u;
override STATE: u32 = 4u * KEY_DIM;

var<workgroup> state: array<vec4<f32>, STATE>; // [d][column / 4]
var<workgroup> rest: array<vec4<f32>, 128>; // R: [row][column / 4]
var<workgroup> fresh: array<vec4<f32>, 128>; // V'
var<workgroup> share: array<f32, 32>; // e^(G_C − G) / ‖k‖

@compute @workgroup_size(128)
fn gated_delta(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let sequence = grid_row(group, groups);
    if (sequence >= bound(params.sequences)) {
        return;
    }
    let head = group.x / params.blocks;
    let first_column = 16u * (group.x % params.blocks);
    let key_head = head / (params.value_heads / params.key_heads);
    let q_start = key_head * params.key_dim;
    let k_start = params.key_heads * params.key_dim + q_start;
    let v_start = 2u * params.key_heads * params.key_dim + head * params.value_dim;
    let i = lane / 4u;
    let c = lane % 4u;
    let column = first_column + 4u * c;

    // Chunks of the sequences before this one.
    var chunk = 0u;
    for (var s = 0u; s < sequence; s++) {
        chunk += (offsets[s + 1u] - offsets[s] + 31u) / 32u;
    }
    for (var n = lane; n < STATE; n += 128u) {
        state[n] = vec4<f32>();
    }
    workgroupBarrier();

    let end = offsets[sequence + 1u];
    for (var start = offsets[sequence]; start < end; start += 32u) {
        let rows = min(end - start, 32u);
        let record = (chunk * params.value_heads + head) * RECORD;
        chunk += 1u;
        let last = records[record + 31u];
        if (lane < 32u) {
            share[lane] = records[record + 64u + lane] * exp(last - records[record + lane]);
        }
        // Beyond the end the record has zeros; any row will do.
        let at = (start + min(i, rows - 1u)) * params.stride;
        var ks = vec4<f32>();
        var qs = vec4<f32>();
        for (var d = 0u; d < KEY_DIM; d++) {
            let s = state[4u * d + c];
            ks = fma(vec4<f32>(x[at + k_start + d]), s, ks);
            qs = fma(vec4<f32>(x[at + q_start + d]), s, qs);
        }
        let kept = exp(records[record + i]);
        let v = four_values(at + v_start, column);
        rest[lane] = records[record + 32u + i] * fma(vec4<f32>(-kept * records[record + 64u + i]), ks, v);
        workgroupBarrier();
        var sum = vec4<f32>();
        for (var j = 0u; j <= i; j++) {
            sum = fma(vec4<f32>(records[record + 128u + 32u * i + j]), rest[4u * j + c], sum);
        }
        fresh[lane] = sum;
        workgroupBarrier();
        var y = (kept * records[record + 96u + i]) * qs;
        for (var j = 0u; j <= i; j++) {
            y = fma(vec4<f32>(records[record + 1152u + 32u * i + j]), fresh[4u * j + c], y);
        }
        if (i < rows) {
            store(start + i, head, column, y);
        }
        let keep = exp(last);
        for (var n = lane; n < STATE; n += 128u) {
            let d = n / 4u;
            var s = keep * state[n];
            for (var j = 0u; j < rows; j++) {
                let k = x[(start + j) * params.stride + k_start + d] * share[j];
                s = fma(vec4<f32>(k), fresh[4u * j + c], s);
            }
            state[n] = s;
        }
        workgroupBarrier();
    }
}

// Four columns of a head's values; zeros beyond its width.
fn four_values(at: u32, column: u32) -> vec4<f32> {
    let columns = vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u);
    let c = min(columns, vec4<u32>(params.value_dim - 1u)) + at;
    return select(vec4<f32>(), vec4<f32>(x[c.x], x[c.y], x[c.z], x[c.w]), columns < vec4<u32>(params.value_dim));
}

fn store(row: u32, head: u32, column: u32, y: vec4<f32>) {
    let at = row * params.out_stride + head * params.value_dim;
    for (var n = 0u; n < 4u; n++) {
        if (column + n < params.value_dim) {
            out[at + column + n] = y[n];
        }
    }
}
