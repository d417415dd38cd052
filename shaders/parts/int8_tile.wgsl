// Products of INT8 codes, exact in i32: an invocation computes four or eight rows of two groups of four columns, which
// are neighbours in a tile or the two halves of a gate. Operands pass through workgroup memory, four codes a word; the
// next ones are on their way while a tile is multiplied.
//
// Sums are indexed by constants alone: a loop over them at the end would put them into memory from the first word on.
//
// From the step: params.{rows, words, columns, first, x_stride, w_stride, out_stride, zero}, HALVES, codes, scales, word,
// finish, out.
override THREADS_M: u32 = 16u; // powers of two
override THREADS_N: u32 = 8u;
override ROWS: u32 = 4u; // rows an invocation: 4 or 8
// Words a tile: a power of two, and at most THREADS_M and THREADS_N, so that two turns fill a tile.
override DEPTH: u32 = 8u;
// Groups of four rows and of four columns a tile.
override TILE_M4: u32 = THREADS_M * ROWS / 4u;
override TILE_N4: u32 = THREADS_N * 2u;
override THREADS: u32 = THREADS_M * THREADS_N;
// What the invocations fetch: a word of four rows or columns each.
override ITEMS_M: u32 = DEPTH * TILE_M4;
override ITEMS_N: u32 = DEPTH * TILE_N4;

// Four rows' or columns' words.
var<workgroup> tile_x: array<vec4<u32>, ITEMS_M>;
var<workgroup> tile_w: array<vec4<u32>, ITEMS_N>;

@compute @workgroup_size(THREADS_N, THREADS_M)
fn int8_product(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let rows = bound(params.rows);
    let first_row = group.y * TILE_M4 * 4u;
    // With two halves a tile is half as many columns of both.
    let first_column = group.x * (TILE_N4 / HALVES) * 4u;
    let tx = lane % THREADS_N;
    let ty = lane / THREADS_N;
    let other = lane + THREADS;

    // Row r: sums[2r] holds its first four columns, sums[2r+1] the other four.
    var sums: array<vec4<i32>, 16>;
    var x0 = fetch_x(lane, first_row, rows, 0u);
    var x1: vec4<u32>;
    if (ITEMS_M > THREADS) {
        x1 = fetch_x(other, first_row, rows, 0u);
    }
    var w0 = fetch_w(lane, first_column, 0u);
    var w1: vec4<u32>;
    if (ITEMS_N > THREADS) {
        w1 = fetch_w(other, first_column, 0u);
    }
    for (var next = DEPTH; next < params.words + DEPTH; next += DEPTH) {
        workgroupBarrier();
        put_x(lane, x0);
        if (ITEMS_M > THREADS) {
            put_x(other, x1);
        }
        put_w(lane, w0);
        if (ITEMS_N > THREADS) {
            put_w(other, w1);
        }
        workgroupBarrier();
        // The last time, what is fetched is not used.
        x0 = fetch_x(lane, first_row, rows, next);
        if (ITEMS_M > THREADS) {
            x1 = fetch_x(other, first_row, rows, next);
        }
        w0 = fetch_w(lane, first_column, next);
        if (ITEMS_N > THREADS) {
            w1 = fetch_w(other, first_column, next);
        }
        for (var j = 0u; j < DEPTH; j++) {
            let low = tile_w[place_w(j, tx)];
            let high = tile_w[place_w(j, tx + THREADS_N)];
            let top = tile_x[place_x(j, ty)];
            sums[0] += products(top.x, low);
            sums[1] += products(top.x, high);
            sums[2] += products(top.y, low);
            sums[3] += products(top.y, high);
            sums[4] += products(top.z, low);
            sums[5] += products(top.z, high);
            sums[6] += products(top.w, low);
            sums[7] += products(top.w, high);
            if (ROWS > 4u) {
                let bottom = tile_x[place_x(j, (ty + THREADS_M) % TILE_M4)];
                sums[8] += products(bottom.x, low);
                sums[9] += products(bottom.x, high);
                sums[10] += products(bottom.y, low);
                sums[11] += products(bottom.y, high);
                sums[12] += products(bottom.z, low);
                sums[13] += products(bottom.z, high);
                sums[14] += products(bottom.w, low);
                sums[15] += products(bottom.w, high);
            }
        }
    }

    let row = first_row + 4u * ty;
    let column = first_column + 4u * tx;
    store(rows, row, column, sums[0], sums[1]);
    store(rows, row + 1u, column, sums[2], sums[3]);
    store(rows, row + 2u, column, sums[4], sums[5]);
    store(rows, row + 3u, column, sums[6], sums[7]);
    if (ROWS > 4u) {
        let below = row + 4u * THREADS_M;
        store(rows, below, column, sums[8], sums[9]);
        store(rows, below + 1u, column, sums[10], sums[11]);
        store(rows, below + 2u, column, sums[12], sums[13]);
        store(rows, below + 3u, column, sums[14], sums[15]);
    }
}

// Four rows of x; beyond the end of k x is zero.
fn fetch_x(item: u32, first_row: u32, rows: u32, k0: u32) -> vec4<u32> {
    let k = k0 + item % DEPTH;
    let row = first_row + 4u * min(item / DEPTH, TILE_M4 - 1u);
    let at = min(vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(rows - 1u)) * params.x_stride
        + min(k, params.words - 1u);
    return select(vec4<u32>(), vec4<u32>(codes[at.x], codes[at.y], codes[at.z], codes[at.w]), k < params.words);
}

// Four columns of the weight; where x is zero any will do.
fn fetch_w(item: u32, first_column: u32, k0: u32) -> vec4<u32> {
    let half_n4 = TILE_N4 / HALVES;
    let k = min(k0 + item % DEPTH, params.words - 1u);
    let n4 = min(item / DEPTH, TILE_N4 - 1u);
    let half = n4 / half_n4;
    let column = first_column + 4u * (n4 % half_n4);
    let at = min(vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.columns - 1u)) * params.w_stride + k;
    return vec4<u32>(word(half, at.x), word(half, at.y), word(half, at.z), word(half, at.w));
}

fn put_x(item: u32, four: vec4<u32>) {
    if (item < ITEMS_M) {
        tile_x[place_x(item % DEPTH, item / DEPTH)] = four;
    }
}

fn put_w(item: u32, four: vec4<u32>) {
    if (item < ITEMS_N) {
        tile_w[place_w(item % DEPTH, item / DEPTH)] = four;
    }
}

// Place of a group in a tile. Groups change places with k, so that neighbours, which store one group of different k, do
// not meet in the same memory bank.
fn place_x(k: u32, m4: u32) -> u32 {
    return k * TILE_M4 + (m4 ^ (k & (TILE_M4 - 1u)));
}

fn place_w(k: u32, n4: u32) -> u32 {
    return k * TILE_N4 + (n4 ^ (k & (TILE_N4 - 1u)));
}

fn products(x: u32, w: vec4<u32>) -> vec4<i32> {
    return vec4<i32>(
        dot4I8Packed(x, w.x),
        dot4I8Packed(x, w.y),
        dot4I8Packed(x, w.z),
        dot4I8Packed(x, w.w),
    );
}

// Both groups of four columns of a row; one group where they are the halves of a gate.
fn store(rows: u32, row: u32, column: u32, low: vec4<i32>, high: vec4<i32>) {
    if (row >= rows) {
        return;
    }
    if (column < params.columns) {
        let n4 = (params.first + column) / 4u;
        out[row * params.out_stride + n4] = finish(row, n4, low, high);
    }
    let other = column + 4u * THREADS_N;
    if (HALVES == 1u && other < params.columns) {
        let n4 = (params.first + other) / 4u;
        out[row * params.out_stride + n4] = finish(row, n4, high, high);
    }
}

// A value as it is, but so that no driver can know it: a product that is added to something afterwards stays rounded.
fn apart(v: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) ^ vec4<u32>(params.zero));
}

fn scaled(sum: vec4<i32>, scale: f32, weight_scales: vec4<f32>) -> vec4<f32> {
    return apart((vec4<f32>(sum) * scale) * weight_scales);
}
