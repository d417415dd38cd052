// CausalAttention: out = softmax(scale · q·kᵀ)·v per head over the rows of the same sequence up to the query's own; several
// query heads share a key head. As attention.wgsl: scores live in workgroup memory, 32 queries by 32 keys at a time, with
// an online softmax; keys are taken in ascending order from the sequence's first.
//
// Workgroup x: a block of queries of one sequence (a task), y: query head, z: 64 columns of the head's output. Heads wider
// than 64 compute their scores once per z. With task.wgsl.
struct Params {
    head_dim: u32,
    group: u32, // query heads of one key head
    // Row strides and first columns, in elements.
    q_stride: u32,
    q_start: u32,
    k_stride: u32,
    k_start: u32,
    v_stride: u32,
    v_start: u32,
    out_stride: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read> k: array<f32>;
@group(0) @binding(4) var<storage, read> v: array<f32>;
@group(0) @binding(5) var<storage, read> tasks: array<Task>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

const LOWEST: f32 = -3.0e38;

// [d][query / 4]: four queries a vector.
var<workgroup> tile_q: array<vec4<f32>, 256>;
// Keys: [d][key / 4]. Values: [key][column / 4].
var<workgroup> tile_kv: array<vec4<f32>, 256>;
// exp(score − max): [key][query / 4].
var<workgroup> tile_p: array<vec4<f32>, 256>;
// [column of invocations][query / 4].
var<workgroup> partial: array<vec4<f32>, 64>;

@compute @workgroup_size(8, 8)
fn causal_attention(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let task = tasks[group.x];
    let head = group.y;
    let tx = lane % 8u;
    let ty = lane / 8u;
    let first_column = group.z * 64u;
    // Of the two groups of 32 output columns, those that exist.
    let wide = params.head_dim > first_column + 32u;
    let key_head = head / params.group;
    // Keys up to the last query's own.
    let key_end = task.query_end;

    // Four queries' running maximum and sum of exponentials, and their outputs in two groups of four columns.
    var highest = vec4<f32>(LOWEST);
    var sum: vec4<f32>;
    var o: array<vec4<f32>, 8>;
    for (var key = task.key; key < key_end; key += 32u) {
        var s: array<vec4<f32>, 4>;
        // WGSL says that it is zero in every round; Chromium on SwiftShader keeps the last round's values.
        s[0] = vec4<f32>();
        s[1] = vec4<f32>();
        s[2] = vec4<f32>();
        s[3] = vec4<f32>();
        for (var d0 = 0u; d0 < params.head_dim; d0 += 32u) {
            workgroupBarrier();
            for (var turn = 0u; turn < 4u; turn++) {
                let i = lane + 64u * turn;
                let d = i % 32u;
                let g = i / 32u;
                tile_q[d * 8u + g] = four_rows_q(task, head, d0 + d, 4u * g);
                tile_kv[d * 8u + g] = four_rows_k(task, key_head, d0 + d, key + 4u * g);
            }
            workgroupBarrier();
            for (var d = 0u; d < 32u; d++) {
                let a = tile_q[d * 8u + ty];
                let b = tile_kv[d * 8u + tx];
                s[0] = fma(a, vec4<f32>(b.x), s[0]);
                s[1] = fma(a, vec4<f32>(b.y), s[1]);
                s[2] = fma(a, vec4<f32>(b.z), s[2]);
                s[3] = fma(a, vec4<f32>(b.w), s[3]);
            }
        }
        let mine = key + 4u * tx;
        s[0] = score(s[0], task, 4u * ty, mine);
        s[1] = score(s[1], task, 4u * ty, mine + 1u);
        s[2] = score(s[2], task, 4u * ty, mine + 2u);
        s[3] = score(s[3], task, 4u * ty, mine + 3u);

        partial[tx * 8u + ty] = max(max(s[0], s[1]), max(s[2], s[3]));
        workgroupBarrier();
        var top = highest;
        for (var t = 0u; t < 8u; t++) {
            top = max(top, partial[t * 8u + ty]);
        }
        workgroupBarrier();
        let shrink = exp(highest - top);
        highest = top;

        let p0 = weigh(s[0], top, seen(task, 4u * ty, mine));
        let p1 = weigh(s[1], top, seen(task, 4u * ty, mine + 1u));
        let p2 = weigh(s[2], top, seen(task, 4u * ty, mine + 2u));
        let p3 = weigh(s[3], top, seen(task, 4u * ty, mine + 3u));
        tile_p[(4u * tx) * 8u + ty] = p0;
        tile_p[(4u * tx + 1u) * 8u + ty] = p1;
        tile_p[(4u * tx + 2u) * 8u + ty] = p2;
        tile_p[(4u * tx + 3u) * 8u + ty] = p3;
        partial[tx * 8u + ty] = (p0 + p1) + (p2 + p3);
        load_values(task, key_head, lane, key, first_column);
        workgroupBarrier();
        sum *= shrink;
        for (var t = 0u; t < 8u; t++) {
            sum += partial[t * 8u + ty];
        }
        for (var c = 0u; c < 8u; c++) {
            o[c] *= shrink;
        }
        for (var j = 0u; j < 32u; j++) {
            let p = tile_p[j * 8u + ty];
            let b = tile_kv[j * 8u + tx];
            o[0] = fma(p, vec4<f32>(b.x), o[0]);
            o[1] = fma(p, vec4<f32>(b.y), o[1]);
            o[2] = fma(p, vec4<f32>(b.z), o[2]);
            o[3] = fma(p, vec4<f32>(b.w), o[3]);
        }
        if (wide) {
            workgroupBarrier();
            load_values(task, key_head, lane, key, first_column + 32u);
            workgroupBarrier();
            for (var j = 0u; j < 32u; j++) {
                let p = tile_p[j * 8u + ty];
                let b = tile_kv[j * 8u + tx];
                o[4] = fma(p, vec4<f32>(b.x), o[4]);
                o[5] = fma(p, vec4<f32>(b.y), o[5]);
                o[6] = fma(p, vec4<f32>(b.z), o[6]);
                o[7] = fma(p, vec4<f32>(b.w), o[7]);
            }
        }
    }

    for (var r = 0u; r < 4u; r++) {
        let row = task.query + 4u * ty + r;
        if (row >= task.query_end) {
            break;
        }
        for (var c = 0u; c < 8u; c++) {
            let column = first_column + 32u * (c / 4u) + 4u * tx + c % 4u;
            if (column < params.head_dim) {
                out[row * params.out_stride + head * params.head_dim + column] = o[c][r] / sum[r];
            }
        }
    }
}

// Element d of four queries from the task's query `at`; those beyond its end repeat the last and are never stored.
fn four_rows_q(task: Task, head: u32, d: u32, at: u32) -> vec4<f32> {
    let column = params.q_start + head * params.head_dim + min(d, params.head_dim - 1u);
    let rows = min(vec4<u32>(task.query + at) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(task.query_end - 1u));
    let i = rows * params.q_stride + column;
    return select(vec4<f32>(), vec4<f32>(q[i.x], q[i.y], q[i.z], q[i.w]), d < params.head_dim);
}

// Element d of four keys; those beyond the end repeat the last and are masked.
fn four_rows_k(task: Task, head: u32, d: u32, key: u32) -> vec4<f32> {
    let column = params.k_start + head * params.head_dim + min(d, params.head_dim - 1u);
    let rows = min(vec4<u32>(key) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(task.query_end - 1u));
    let i = rows * params.k_stride + column;
    return select(vec4<f32>(), vec4<f32>(k[i.x], k[i.y], k[i.z], k[i.w]), d < params.head_dim);
}

// 32 keys' values in 32 columns.
fn load_values(task: Task, head: u32, lane: u32, key: u32, first_column: u32) {
    let last = params.head_dim - 1u;
    for (var turn = 0u; turn < 4u; turn++) {
        let i = lane + 64u * turn;
        let column = vec4<u32>(first_column + 4u * (i % 8u)) + vec4<u32>(0u, 1u, 2u, 3u);
        let at = min(key + i / 8u, task.query_end - 1u) * params.v_stride + params.v_start + head * params.head_dim;
        let c = min(column, vec4<u32>(last)) + at;
        let r = vec4<f32>(v[c.x], v[c.y], v[c.z], v[c.w]);
        tile_kv[i] = select(vec4<f32>(), r, column <= vec4<u32>(last));
    }
}

// Which of four queries from the task's query `at` see a key.
fn seen(task: Task, at: u32, key: u32) -> vec4<bool> {
    return vec4<u32>(task.query + at) + vec4<u32>(0u, 1u, 2u, 3u) >= vec4<u32>(key);
}

// Four queries' scores of one key, scaled and masked.
fn score(product: vec4<f32>, task: Task, at: u32, key: u32) -> vec4<f32> {
    return select(vec4<f32>(LOWEST), product * params.scale, seen(task, at, key));
}

fn weigh(s: vec4<f32>, top: vec4<f32>, counts: vec4<bool>) -> vec4<f32> {
    return select(vec4<f32>(), exp(s - top), counts);
}
