// Attention: out = softmax(scale · q·kᵀ + bias)·v per head and sequence. Scores live in workgroup memory, 32 queries by
// 64 keys at a time, with an online softmax; keys are taken in ascending order from the sequence's first, so a query's
// result depends on its own sequence alone.
//
// Workgroup x: a block of queries of one sequence (a task), y: head, z: 64 columns of the head's output. Heads wider than
// 64 compute their scores once per z. An invocation computes four queries' scores of four keys, and then four queries' four
// columns of the output.
struct Params {
    head_dim: u32,
    heads: u32,
    // Row strides and first columns, in elements.
    q_stride: u32,
    q_start: u32,
    k_stride: u32,
    k_start: u32,
    v_stride: u32,
    v_start: u32,
    out_stride: u32,
    reach: u32, // distances beyond ±reach count as ±reach
    biased: u32,
    scale: f32,
}

// Queries first..end of one sequence, `place` rows after its first; keys first..end.
struct Task {
    query: u32,
    query_end: u32,
    place: u32,
    key: u32,
    key_end: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> tasks: array<Task>;
@group(0) @binding(6) var<storage, read> bias_table: array<f32>; // [buckets, heads], rows padded to four
@group(0) @binding(7) var<storage, read> buckets: array<u32>; // bucket of distance d − reach
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

// Whether first columns and the head's width are multiples of four, so that four columns are one load.
override ALIGNED: u32 = 0u;

const LOWEST: f32 = -3.0e38;

// In 16 KiB, which is what every device has. Groups of four change places with the row they are in, so that neighbours
// do not meet in the same memory bank.
// Queries: [d][query / 4], 32 d. Then exp(score − max): [key][query / 4].
var<workgroup> tile_qp: array<vec4<f32>, 512>;
// Keys: [d][key / 4], 32 d. Then maxima: [column of invocations][query / 4]. Then values: [key][column / 4], 32 keys.
var<workgroup> tile_kv: array<vec4<f32>, 512>;

@compute @workgroup_size(128)
fn attention(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let task = tasks[group.x];
    let head = group.y;
    let first_column = group.z * 64u;
    let bias_stride = (params.heads + 3u) / 4u * 4u;
    // Four queries and four keys or columns. Neighbours share one or the other.
    let ty = lane % 2u + 2u * (lane / 32u);
    let tx = (lane / 2u) % 16u;
    // What this invocation fetches of a tile: four d of four rows.
    let d4 = lane % 8u;
    let g = lane / 8u;
    let head_column = head * params.head_dim;

    // Four queries' running maximum and sum of exponentials, and four columns of their outputs.
    var highest = vec4<f32>(LOWEST);
    var sum: vec4<f32>;
    var o: array<vec4<f32>, 4>;
    for (var key = task.key; key < task.key_end; key += 64u) {
        var s: array<vec4<f32>, 4>;
        // WGSL says that it is zero in every round; Chromium on SwiftShader keeps the last round's values.
        s[0] = vec4<f32>();
        s[1] = vec4<f32>();
        s[2] = vec4<f32>();
        s[3] = vec4<f32>();
        for (var d0 = 0u; d0 < params.head_dim; d0 += 32u) {
            let d = d0 + 4u * d4;
            // Rows beyond the end repeat the last one: such queries are never stored and such keys masked.
            let some_keys = four_keys(vec4<u32>(key + 4u * g), task.key_end - 1u, head_column, d);
            var some_queries: mat4x4<f32>;
            if (g < 8u) {
                some_queries = four_queries(vec4<u32>(task.query + 4u * g), task.query_end - 1u, head_column, d);
            }
            workgroupBarrier();
            let at = 4u * d4;
            tile_kv[at * 16u + (g ^ d4)] = some_keys[0];
            tile_kv[(at + 1u) * 16u + (g ^ d4)] = some_keys[1];
            tile_kv[(at + 2u) * 16u + (g ^ d4)] = some_keys[2];
            tile_kv[(at + 3u) * 16u + (g ^ d4)] = some_keys[3];
            if (g < 8u) {
                tile_qp[at * 8u + (g ^ d4)] = some_queries[0];
                tile_qp[(at + 1u) * 8u + (g ^ d4)] = some_queries[1];
                tile_qp[(at + 2u) * 8u + (g ^ d4)] = some_queries[2];
                tile_qp[(at + 3u) * 8u + (g ^ d4)] = some_queries[3];
            }
            workgroupBarrier();
            for (var i4 = 0u; i4 < 8u; i4++) {
                for (var i = 4u * i4; i < 4u * i4 + 4u; i++) {
                    let a = tile_qp[i * 8u + (ty ^ i4)];
                    let b = tile_kv[i * 16u + (tx ^ i4)];
                    s[0] = fma(a, vec4<f32>(b.x), s[0]);
                    s[1] = fma(a, vec4<f32>(b.y), s[1]);
                    s[2] = fma(a, vec4<f32>(b.z), s[2]);
                    s[3] = fma(a, vec4<f32>(b.w), s[3]);
                }
            }
        }
        let mine = key + 4u * tx;
        s[0] = score(s[0], task, head, bias_stride, 4u * ty, mine);
        s[1] = score(s[1], task, head, bias_stride, 4u * ty, mine + 1u);
        s[2] = score(s[2], task, head, bias_stride, 4u * ty, mine + 2u);
        s[3] = score(s[3], task, head, bias_stride, 4u * ty, mine + 3u);

        workgroupBarrier();
        tile_kv[tx * 8u + ty] = max(max(s[0], s[1]), max(s[2], s[3]));
        workgroupBarrier();
        var top = highest;
        for (var t = 0u; t < 16u; t++) {
            top = max(top, tile_kv[t * 8u + ty]);
        }
        let shrink = exp(highest - top);
        highest = top;
        let place = 32u * tx + (ty ^ (tx & 7u));
        tile_qp[place] = weigh(s[0], top, mine < task.key_end);
        tile_qp[place + 8u] = weigh(s[1], top, mine + 1u < task.key_end);
        tile_qp[place + 16u] = weigh(s[2], top, mine + 2u < task.key_end);
        tile_qp[place + 24u] = weigh(s[3], top, mine + 3u < task.key_end);
        sum *= shrink;
        o[0] *= shrink;
        o[1] *= shrink;
        o[2] *= shrink;
        o[3] *= shrink;
        // Their values, 32 keys at a time.
        for (var part = 0u; part < 64u; part += 32u) {
            if (key + part >= task.key_end) {
                break;
            }
            let first = key + part + lane / 16u;
            let column = first_column + 4u * (lane % 16u);
            let v0 = values(first, task.key_end - 1u, head_column, column);
            let v1 = values(first + 8u, task.key_end - 1u, head_column, column);
            let v2 = values(first + 16u, task.key_end - 1u, head_column, column);
            let v3 = values(first + 24u, task.key_end - 1u, head_column, column);
            workgroupBarrier();
            tile_kv[lane] = v0;
            tile_kv[lane + 128u] = v1;
            tile_kv[lane + 256u] = v2;
            tile_kv[lane + 384u] = v3;
            workgroupBarrier();
            for (var j4 = 0u; j4 < 8u; j4++) {
                for (var j = 4u * j4; j < 4u * j4 + 4u; j++) {
                    let p = tile_qp[(part + j) * 8u + (ty ^ j4)];
                    let b = tile_kv[j * 16u + tx];
                    sum += p;
                    o[0] = fma(p, vec4<f32>(b.x), o[0]);
                    o[1] = fma(p, vec4<f32>(b.y), o[1]);
                    o[2] = fma(p, vec4<f32>(b.z), o[2]);
                    o[3] = fma(p, vec4<f32>(b.w), o[3]);
                }
            }
        }
    }

    for (var r = 0u; r < 4u; r++) {
        let row = task.query + 4u * ty + r;
        if (row >= task.query_end) {
            break;
        }
        for (var c = 0u; c < 4u; c++) {
            let column = first_column + 4u * tx + c;
            if (column < params.head_dim) {
                // A query without keys has no sum.
                let y = select(0.0, o[c][r] / sum[r], sum[r] > 0.0);
                out[row * params.out_stride + head_column + column] = y;
            }
        }
    }
}

// Elements d to d + 3 of four rows from `first`, turned over: by d.
fn four_queries(first: vec4<u32>, last: u32, head_column: u32, d: u32) -> mat4x4<f32> {
    let rows = min(first + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last)) * params.q_stride + params.q_start + head_column;
    return transpose(mat4x4<f32>(q4(rows.x, d), q4(rows.y, d), q4(rows.z, d), q4(rows.w, d)));
}

fn four_keys(first: vec4<u32>, last: u32, head_column: u32, d: u32) -> mat4x4<f32> {
    let rows = min(first + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last)) * params.k_stride + params.k_start + head_column;
    return transpose(mat4x4<f32>(k4(rows.x, d), k4(rows.y, d), k4(rows.z, d), k4(rows.w, d)));
}

// Four columns of a key's value, zeros beyond the head's width.
fn values(key: u32, last: u32, head_column: u32, column: u32) -> vec4<f32> {
    return v4(min(key, last) * params.v_stride + params.v_start + head_column, column);
}

// Elements d to d + 3 of the head's row that begins at element `row`, zeros beyond its width.
fn q4(row: u32, d: u32) -> vec4<f32> {
    let at = elements(row, d);
    if (ALIGNED != 0u) {
        return inside(q[at.x / 4u], d);
    }
    let w = at % 4u;
    return inside(vec4<f32>(q[at.x / 4u][w.x], q[at.y / 4u][w.y], q[at.z / 4u][w.z], q[at.w / 4u][w.w]), d);
}

fn k4(row: u32, d: u32) -> vec4<f32> {
    let at = elements(row, d);
    if (ALIGNED != 0u) {
        return inside(k[at.x / 4u], d);
    }
    let w = at % 4u;
    return inside(vec4<f32>(k[at.x / 4u][w.x], k[at.y / 4u][w.y], k[at.z / 4u][w.z], k[at.w / 4u][w.w]), d);
}

fn v4(row: u32, d: u32) -> vec4<f32> {
    let at = elements(row, d);
    if (ALIGNED != 0u) {
        return inside(v[at.x / 4u], d);
    }
    let w = at % 4u;
    return inside(vec4<f32>(v[at.x / 4u][w.x], v[at.y / 4u][w.y], v[at.z / 4u][w.z], v[at.w / 4u][w.w]), d);
}

// Where elements d to d + 3 of a head are; those beyond its width repeat the last.
fn elements(row: u32, d: u32) -> vec4<u32> {
    return min(vec4<u32>(d) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.head_dim - 1u)) + row;
}

fn inside(v: vec4<f32>, d: u32) -> vec4<f32> {
    return select(vec4<f32>(), v, vec4<u32>(d) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(params.head_dim));
}

// Four queries' scores of one key, scaled and biased.
fn score(product: vec4<f32>, task: Task, head: u32, bias_stride: u32, at: u32, key: u32) -> vec4<f32> {
    if (key >= task.key_end) {
        return vec4<f32>(LOWEST);
    }
    if (params.biased == 0u) {
        return product * params.scale;
    }
    let reach = vec4<i32>(i32(params.reach));
    let queries = vec4<i32>(i32(task.place + at)) + vec4<i32>(0, 1, 2, 3);
    let place = vec4<i32>(i32(key - task.key));
    let d = vec4<u32>(clamp(place - queries, -reach, reach) + reach);
    let row = vec4<u32>(buckets[d.x], buckets[d.y], buckets[d.z], buckets[d.w]) * bias_stride + head;
    let bias = vec4<f32>(bias_table[row.x], bias_table[row.y], bias_table[row.z], bias_table[row.w]);
    return fma(product, vec4<f32>(params.scale), bias);
}

fn weigh(s: vec4<f32>, top: vec4<f32>, counts: bool) -> vec4<f32> {
    return select(vec4<f32>(), exp(s - top), counts);
}
