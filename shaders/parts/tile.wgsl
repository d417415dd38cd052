// x·Wᵀ for many rows: a workgroup computes a tile of the result, an invocation up to eight rows of eight columns of it over
// a quarter of k. Both operands pass through workgroup memory, k-major; the next tile is on its way while one is multiplied.
//
// Every element is the sum of four chains of fused multiply-adds, ((a + b) + c) + d, each over a quarter of k in ascending
// order, from zero. skinny.wgsl does the same, so a row has the same bits whichever of the two runs and whatever the tile
// sizes are. Four chains, because a request of a hundred tokens has too few tiles to keep a large GPU busy.
//
// From the step: params.{rows, k, columns, first, x_stride, out_stride}, HALVES, word, finish, out. From the left operand's
// part: RawX, raw_x. From a staged_*.wgsl: Xs, Ws, QuadX, QuadW, quad_x, quad_w, wide_x, wide_w, BACK.
override THREADS_M: u32 = 8u; // powers of two
override THREADS_N: u32 = 8u;
override ROWS: u32 = 8u; // rows an invocation: 4 or 8
// Groups of four k a tile: a power of two, and at most THREADS_M and THREADS_N, so that two turns fill a tile.
override DEPTH4: u32 = 4u;
// 2 where a tile may be filled while another one is multiplied, 1 where workgroup memory is short.
override BUFFERS: u32 = 1u;
// Groups of four rows and of four columns a tile.
override TILE_M4: u32 = THREADS_M * ROWS / 4u;
override TILE_N4: u32 = THREADS_N * 2u;
override THREADS: u32 = THREADS_M * THREADS_N; // of a quarter
// What a quarter's invocations fetch: four rows or columns of one group of k each.
override ITEMS_M: u32 = DEPTH4 * TILE_M4;
override ITEMS_N: u32 = DEPTH4 * TILE_N4;

alias Out = vec4<f32>;

var<workgroup> tile_x: array<Xs, 16u * BUFFERS * ITEMS_M>;
var<workgroup> tile_w: array<Ws, 16u * BUFFERS * ITEMS_N>;
// Two groups of four sums of every invocation.
var<workgroup> chains: array<vec4<f32>, 8u * THREADS>;

// A group of k of four rows of x, and of four columns of the weight.
struct FourX {
    a: RawX,
    b: RawX,
    c: RawX,
    d: RawX,
}

struct FourW {
    a: Word,
    b: Word,
    c: Word,
    d: Word,
}

@compute @workgroup_size(THREADS_N, THREADS_M, 4)
fn product(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
    let quarter = invocation / THREADS;
    let lane = invocation % THREADS;
    var base_x = quarter * 4u * ITEMS_M;
    var base_w = quarter * 4u * ITEMS_N;
    // The other buffer, in turns.
    var step_x = 16u * ITEMS_M;
    var step_w = 16u * ITEMS_N;
    let rows = bound(params.rows);
    let groups_k = (params.k + 3u) / 4u;
    let first_row = group.y * TILE_M4 * 4u;
    // With two halves a tile is half as many columns of both.
    let first_column = group.x * (TILE_N4 / HALVES) * 4u;
    // Neighbours in pairs along the rows and then along the columns: each reads what another one next to it reads.
    let pair = min(THREADS_M, 2u);
    let tx = (lane / pair) % THREADS_N;
    let ty = lane % pair + pair * (lane / (pair * THREADS_N));

    // Row r: acc[2r] holds its first four columns, acc[2r+1] the other four.
    var acc: array<vec4<f32>, 16>;
    let quarter_k = (groups_k + 3u) / 4u;
    let start = quarter * quarter_k;
    let end = min(start + quarter_k, groups_k);
    let other = lane + THREADS;
    var x0 = fetch_x(lane, first_row, rows, start, end);
    var x1: FourX;
    if (ITEMS_M > THREADS) {
        x1 = fetch_x(other, first_row, rows, start, end);
    }
    var w0 = fetch_w(lane, first_column, start, groups_k);
    var w1: FourW;
    if (ITEMS_N > THREADS) {
        w1 = fetch_w(other, first_column, start, groups_k);
    }
    for (var done = DEPTH4; done < quarter_k + DEPTH4; done += DEPTH4) {
        if (BUFFERS == 1u) {
            workgroupBarrier();
        }
        put_x(lane, base_x, x0);
        if (ITEMS_M > THREADS) {
            put_x(other, base_x, x1);
        }
        put_w(lane, base_w, w0);
        if (ITEMS_N > THREADS) {
            put_w(other, base_w, w1);
        }
        workgroupBarrier();
        // The last time, what is fetched is not used.
        let next = start + done;
        x0 = fetch_x(lane, first_row, rows, next, end);
        if (ITEMS_M > THREADS) {
            x1 = fetch_x(other, first_row, rows, next, end);
        }
        w0 = fetch_w(lane, first_column, next, groups_k);
        if (ITEMS_N > THREADS) {
            w1 = fetch_w(other, first_column, next, groups_k);
        }
        for (var k4 = 0u; k4 < DEPTH4; k4++) {
            let at_top = base_x + place_x(k4, ty);
            let at_bottom = base_x + place_x(k4, (ty + THREADS_M) % TILE_M4);
            let at_low = base_w + place_w(k4, tx);
            let at_high = base_w + place_w(k4, tx + THREADS_N);
            for (var c = 0u; c < 4u; c++) {
                let low = wide_w(tile_w[at_low + c * TILE_N4]);
                let high = wide_w(tile_w[at_high + c * TILE_N4]);
                let top = wide_x(tile_x[at_top + c * TILE_M4]);
                acc[0] = fma(vec4<f32>(top.x), low, acc[0]);
                acc[1] = fma(vec4<f32>(top.x), high, acc[1]);
                acc[2] = fma(vec4<f32>(top.y), low, acc[2]);
                acc[3] = fma(vec4<f32>(top.y), high, acc[3]);
                acc[4] = fma(vec4<f32>(top.z), low, acc[4]);
                acc[5] = fma(vec4<f32>(top.z), high, acc[5]);
                acc[6] = fma(vec4<f32>(top.w), low, acc[6]);
                acc[7] = fma(vec4<f32>(top.w), high, acc[7]);
                if (ROWS > 4u) {
                    let bottom = wide_x(tile_x[at_bottom + c * TILE_M4]);
                    acc[8] = fma(vec4<f32>(bottom.x), low, acc[8]);
                    acc[9] = fma(vec4<f32>(bottom.x), high, acc[9]);
                    acc[10] = fma(vec4<f32>(bottom.y), low, acc[10]);
                    acc[11] = fma(vec4<f32>(bottom.y), high, acc[11]);
                    acc[12] = fma(vec4<f32>(bottom.z), low, acc[12]);
                    acc[13] = fma(vec4<f32>(bottom.z), high, acc[13]);
                    acc[14] = fma(vec4<f32>(bottom.w), low, acc[14]);
                    acc[15] = fma(vec4<f32>(bottom.w), high, acc[15]);
                }
            }
        }
        if (BUFFERS == 2u) {
            base_x += step_x;
            base_w += step_w;
            // Back the next time: these wrap around.
            step_x = 0u - step_x;
            step_w = 0u - step_w;
        }
    }

    let row = first_row + 4u * ty;
    let column = first_column + 4u * tx;
    settle(0u, quarter, lane, rows, row, column, acc[0], acc[1]);
    settle(1u, quarter, lane, rows, row + 1u, column, acc[2], acc[3]);
    settle(2u, quarter, lane, rows, row + 2u, column, acc[4], acc[5]);
    settle(3u, quarter, lane, rows, row + 3u, column, acc[6], acc[7]);
    if (ROWS > 4u) {
        let below = row + 4u * THREADS_M;
        settle(0u, quarter, lane, rows, below, column, acc[8], acc[9]);
        settle(1u, quarter, lane, rows, below + 1u, column, acc[10], acc[11]);
        settle(2u, quarter, lane, rows, below + 2u, column, acc[12], acc[13]);
        settle(3u, quarter, lane, rows, below + 3u, column, acc[14], acc[15]);
    }
}

// Four rows of x for the tile that begins at group k0; beyond the quarter's end x is zero.
fn fetch_x(item: u32, first_row: u32, rows: u32, k0: u32, end: u32) -> FourX {
    let k = k0 + item % DEPTH4;
    let row = first_row + 4u * min(item / DEPTH4, TILE_M4 - 1u);
    let last = rows - 1u;
    return FourX(
        raw_x(min(row, last), k, k < end),
        raw_x(min(row + 1u, last), k, k < end),
        raw_x(min(row + 2u, last), k, k < end),
        raw_x(min(row + 3u, last), k, k < end),
    );
}

// Four columns of the weight; where x is zero any will do.
fn fetch_w(item: u32, first_column: u32, k0: u32, groups_k: u32) -> FourW {
    let half_n4 = TILE_N4 / HALVES;
    let k = min(k0 + item % DEPTH4, groups_k - 1u);
    let n4 = min(item / DEPTH4, TILE_N4 - 1u);
    let half = n4 / half_n4;
    let column = first_column + 4u * (n4 % half_n4);
    let last = params.columns - 1u;
    return FourW(
        word(half, min(column, last), k),
        word(half, min(column + 1u, last), k),
        word(half, min(column + 2u, last), k),
        word(half, min(column + 3u, last), k),
    );
}

fn put_x(item: u32, base: u32, four: FourX) {
    if (item < ITEMS_M) {
        let at = base + place_x(item % DEPTH4, item / DEPTH4);
        let quad = quad_x(four.a, four.b, four.c, four.d);
        tile_x[at] = quad.k0;
        tile_x[at + TILE_M4] = quad.k1;
        tile_x[at + 2u * TILE_M4] = quad.k2;
        tile_x[at + 3u * TILE_M4] = quad.k3;
    }
}

fn put_w(item: u32, base: u32, four: FourW) {
    if (item < ITEMS_N) {
        let at = base + place_w(item % DEPTH4, item / DEPTH4);
        let quad = quad_w(four.a, four.b, four.c, four.d);
        tile_w[at] = quad.k0;
        tile_w[at + TILE_N4] = quad.k1;
        tile_w[at + 2u * TILE_N4] = quad.k2;
        tile_w[at + 3u * TILE_N4] = quad.k3;
    }
}

// Place of a group in a quarter's tile. Groups change places with k, so that neighbours, which store one group of
// different k, do not meet in the same memory bank.
fn place_x(k4: u32, m4: u32) -> u32 {
    return 4u * k4 * TILE_M4 + (m4 ^ ((2u * k4) & (TILE_M4 - 1u)));
}

fn place_w(k4: u32, n4: u32) -> u32 {
    return 4u * k4 * TILE_N4 + (n4 ^ ((2u * k4) & (TILE_N4 - 1u)));
}

// Adds up the four chains of a row's two groups of columns; the quarters take turns at the rows.
fn settle(
    owner: u32,
    quarter: u32,
    lane: u32,
    rows: u32,
    row: u32,
    column: u32,
    low: vec4<f32>,
    high: vec4<f32>,
) {
    chains[quarter * THREADS + lane] = low;
    chains[(4u + quarter) * THREADS + lane] = high;
    workgroupBarrier();
    if (quarter == owner && row < rows) {
        store(row, column, total(lane), total(4u * THREADS + lane));
    }
    workgroupBarrier();
}

fn total(at: u32) -> vec4<f32> {
    let sum = ((chains[at] + chains[at + THREADS]) + chains[at + 2u * THREADS]) + chains[at + 3u * THREADS];
    return sum * BACK;
}

// Both groups of four columns of a row; one group where they are the halves of a gate. The last group may reach into
// the row's padding.
fn store(row: u32, column: u32, low: vec4<f32>, high: vec4<f32>) {
    if (column < params.columns) {
        let n4 = (params.first + column) / 4u;
        out[row * params.out_stride + n4] = finish(row, n4, low, high);
    }
    let other = column + 2u * TILE_N4;
    if (HALVES == 1u && other < params.columns) {
        let n4 = (params.first + other) / 4u;
        out[row * params.out_stride + n4] = finish(row, n4, high, high);
    }
}
