// x·Wᵀ by cooperative matrices: a subgroup of 32 computes 32 rows of 32 columns, over half of k where PARTS is 2; a
// workgroup SUBGROUPS_M × SUBGROUPS_N of these tiles in PARTS times as many subgroups. Operands pass through workgroup
// memory as f16, and the next ones are on their way while a tile is multiplied. Four elements 0 1 2 3 are kept in the order
// 0 2 1 3, in both operands alike.
//
// Every element is the sum of two chains of 16×16 products, one over the first and one over the second 64 of every 128 k,
// each in ascending order, whatever the tile is: a row has the same bits in
// any batch and bucket. They are not the bits of tile.wgsl, so a product runs in this loop for every number of rows or
// for none.
//
// From the step: params.{rows, k, columns, first, x_stride, out_stride}, HALVES, word, finish, out. From coop_e4m3.wgsl or
// coop_int8.wgsl: Word, SixteenX, fetch_x, put_x, put_w. The stride of the weight is in groups of sixteen elements. k is a
// multiple of 128.
override SUBGROUPS_M: u32 = 1u; // 1, 2 or 4
override SUBGROUPS_N: u32 = 2u; // 1, 2 or 4
override PARTS: u32 = 2u; // 1 or 2; 1 for at least 2 × 2 subgroups
override SUBGROUPS: u32 = SUBGROUPS_M * SUBGROUPS_N; // of each part
override LANES: u32 = 32u * PARTS * SUBGROUPS;
// Rows that the invocations fetch at once, eight to a row, and turns until all are fetched: 1, 2 or 4.
override SLOTS: u32 = LANES / 8u;
override TURNS_X: u32 = 32u * SUBGROUPS_M / SLOTS;
override TURNS_W: u32 = 32u * SUBGROUPS_N / SLOTS;

alias Out = vec4<f32>;

// 128 elements a row and 8 of padding against bank conflicts, in groups of four.
const ROW: u32 = 34u;
// 16 rows of 32 results, padded, in groups of four.
const RESULT_ROW: u32 = 9u;

var<workgroup> tile_x: array<vec4<f16>, 32u * SUBGROUPS_M * ROW>;
var<workgroup> tile_w: array<vec4<f16>, 32u * SUBGROUPS_N * ROW>;
var<workgroup> results: array<vec4<f32>, 16u * RESULT_ROW * SUBGROUPS * PARTS>;

@compute @workgroup_size(LANES)
fn product(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let rows = bound(params.rows);
    let subgroup = lane / 32u;
    let half_k = subgroup / SUBGROUPS;
    let tile = subgroup % SUBGROUPS;
    let sm = tile / SUBGROUPS_N;
    let sn = tile % SUBGROUPS_N;
    let first_row = group.y * 32u * SUBGROUPS_M;
    // With two halves, 16 columns of the gate and the same 16 of the other are neighbours in a tile.
    let half_width = 32u / HALVES;
    let first_column = group.x * half_width * SUBGROUPS_N;

    // The rows of x and of the weight that this invocation fetches: an eighth of a tile's depth of each.
    let slot = lane / 8u;
    var source: Sources;
    source.part = lane % 8u;
    for (var i = 0u; i < 4u; i++) {
        let n = slot + i * SLOTS;
        source.x[i] = min(first_row + n, rows - 1u) * params.x_stride;
        source.half[i] = (n % 32u) / half_width;
        source.w[i] = min(first_column + (n / 32u) * half_width + n % half_width, params.columns - 1u);
    }

    var c00 = coop_mat16x16<f32, C>();
    var c01 = coop_mat16x16<f32, C>();
    var c10 = coop_mat16x16<f32, C>();
    var c11 = coop_mat16x16<f32, C>();
    // The second chain, where one subgroup has both.
    var e00 = coop_mat16x16<f32, C>();
    var e01 = coop_mat16x16<f32, C>();
    var e10 = coop_mat16x16<f32, C>();
    var e11 = coop_mat16x16<f32, C>();
    let steps = params.k / 128u;
    let place = slot * ROW;
    let stride = ROW;
    var next = fetch(source, 0u);
    for (var step = 1u; step <= steps; step++) {
        workgroupBarrier();
        put(place, source.part, next);
        workgroupBarrier();
        // The last time, what is fetched is not used.
        next = fetch(source, 8u * min(step, steps - 1u));
        for (var d = 0u; d < 16u; d += 4u) {
            let xa = sm * 32u * ROW + half_k * 16u + d;
            let xb = xa + 16u * ROW;
            let wa = sn * 32u * ROW + half_k * 16u + d;
            let wb = wa + 16u * ROW;
            let a0 = coopLoadT<coop_mat16x16<f16, A>>(&tile_x[xa], stride);
            let a1 = coopLoadT<coop_mat16x16<f16, A>>(&tile_x[xb], stride);
            let b0 = coopLoad<coop_mat16x16<f16, B>>(&tile_w[wa], stride);
            let b1 = coopLoad<coop_mat16x16<f16, B>>(&tile_w[wb], stride);
            c00 = coopMultiplyAdd(a0, b0, c00);
            c01 = coopMultiplyAdd(a0, b1, c01);
            c10 = coopMultiplyAdd(a1, b0, c10);
            c11 = coopMultiplyAdd(a1, b1, c11);
        }
        if (PARTS == 1u) {
            for (var d = 16u; d < 32u; d += 4u) {
                let xa = sm * 32u * ROW + d;
                let xb = xa + 16u * ROW;
                let wa = sn * 32u * ROW + d;
                let wb = wa + 16u * ROW;
                let a0 = coopLoadT<coop_mat16x16<f16, A>>(&tile_x[xa], stride);
                let a1 = coopLoadT<coop_mat16x16<f16, A>>(&tile_x[xb], stride);
                let b0 = coopLoad<coop_mat16x16<f16, B>>(&tile_w[wa], stride);
                let b1 = coopLoad<coop_mat16x16<f16, B>>(&tile_w[wb], stride);
                e00 = coopMultiplyAdd(a0, b0, e00);
                e01 = coopMultiplyAdd(a0, b1, e01);
                e10 = coopMultiplyAdd(a1, b0, e10);
                e11 = coopMultiplyAdd(a1, b1, e11);
            }
        }
    }

    if (PARTS == 1u) {
        c00 = c00 + e00;
        c01 = c01 + e01;
        c10 = c10 + e10;
        c11 = c11 + e11;
    }
    let result_stride = RESULT_ROW;
    let left = subgroup * 16u * RESULT_ROW;
    let right = left + 4u;
    let row = first_row + sm * 32u;
    let column = first_column + sn * half_width;
    coopStoreT(c00, &results[left], result_stride);
    coopStoreT(c01, &results[right], result_stride);
    workgroupBarrier();
    let both = tile * 16u * RESULT_ROW;
    let worker = lane % 32u + 32u * half_k;
    store(rows, row, column, both, worker);
    workgroupBarrier();
    coopStoreT(c10, &results[left], result_stride);
    coopStoreT(c11, &results[right], result_stride);
    workgroupBarrier();
    store(rows, row + 16u, column, both, worker);
}

// Where an invocation fetches: the first group of up to four rows of x, up to four columns of up to two halves, and its
// place in a tile's depth.
struct Sources {
    x: vec4<u32>,
    w: vec4<u32>,
    half: vec4<u32>,
    part: u32,
}

// Sixteen elements of each.
struct Fetched {
    x0: SixteenX,
    x1: SixteenX,
    x2: SixteenX,
    x3: SixteenX,
    w0: Word,
    w1: Word,
    w2: Word,
    w3: Word,
}

// Groups of sixteen from `first` on.
fn fetch(source: Sources, first: u32) -> Fetched {
    let part = source.part;
    let k = first + part;
    var f: Fetched;
    f.x0 = fetch_x(source.x.x, first, part);
    if (TURNS_X >= 2u) {
        f.x1 = fetch_x(source.x.y, first, part);
    }
    if (TURNS_X >= 4u) {
        f.x2 = fetch_x(source.x.z, first, part);
        f.x3 = fetch_x(source.x.w, first, part);
    }
    f.w0 = word(source.half.x, source.w.x, k);
    if (TURNS_W >= 2u) {
        f.w1 = word(source.half.y, source.w.y, k);
    }
    if (TURNS_W >= 4u) {
        f.w2 = word(source.half.z, source.w.z, k);
        f.w3 = word(source.half.w, source.w.w, k);
    }
    return f;
}

// What was fetched, to workgroup memory: rows from `at` on.
fn put(at: u32, part: u32, f: Fetched) {
    put_x(at, part, f.x0);
    if (TURNS_X >= 2u) {
        put_x(at + SLOTS * ROW, part, f.x1);
    }
    if (TURNS_X >= 4u) {
        put_x(at + 2u * SLOTS * ROW, part, f.x2);
        put_x(at + 3u * SLOTS * ROW, part, f.x3);
    }
    let w_at = at + 4u * part;
    put_w(w_at, f.w0);
    if (TURNS_W >= 2u) {
        put_w(w_at + SLOTS * ROW, f.w1);
    }
    if (TURNS_W >= 4u) {
        put_w(w_at + 2u * SLOTS * ROW, f.w2);
        put_w(w_at + 3u * SLOTS * ROW, f.w3);
    }
}

// 16 rows of a tile's 32 columns, or of 16 columns of both halves of a gate, by the invocations of the tile.
fn store(rows: u32, row: u32, column: u32, at: u32, lane: u32) {
    let groups = 8u / HALVES;
    for (var i = lane; i < 16u * groups; i += 32u * PARTS) {
        let r = row + i / groups;
        let n = column + 4u * (i % groups);
        if (r < rows && n < params.columns) {
            let n4 = (params.first + n) / 4u;
            let source = at + (i / groups) * RESULT_ROW + i % groups;
            let other = source + 16u * RESULT_ROW * SUBGROUPS;
            var low = results[source];
            var high = results[source + 8u - groups];
            if (PARTS == 2u) {
                low += results[other];
                high += results[other + 8u - groups];
            }
            out[r * params.out_stride + n4] = finish(r, n4, low, high);
        }
    }
}
