// x·Wᵀ for many rows: a workgroup computes a tile of the result, an invocation up to eight rows of eight columns of it over
// a quarter of k. Both operands pass through workgroup memory, k-major.
//
// Every element is the sum of four chains of fused multiply-adds, ((a + b) + c) + d, each over a quarter of k in ascending
// order, from zero. skinny.wgsl does the same, so a row has the same bits whichever of the two runs and whatever the tile
// sizes are. Four chains, because a request of a hundred tokens has too few tiles to keep a large GPU busy.
//
// From the step: params.{rows, k, columns, first, out_stride}, HALVES, x4, word, decode, finish, out.
override THREADS_M: u32 = 8u;
override THREADS_N: u32 = 8u;
override ROWS: u32 = 8u; // rows an invocation: 4 or 8
override DEPTH4: u32 = 4u; // groups of four k a tile
// Groups of four rows and of four columns a tile.
override TILE_M4: u32 = THREADS_M * ROWS / 4u;
override TILE_N4: u32 = THREADS_N * 2u;

// Turns of all invocations that fill a tile: known numbers, so that a driver can unroll them.
override TURNS_M: u32 = (DEPTH4 * TILE_M4 + THREADS_M * THREADS_N - 1u) / (THREADS_M * THREADS_N);
override TURNS_N: u32 = (DEPTH4 * TILE_N4 + THREADS_M * THREADS_N - 1u) / (THREADS_M * THREADS_N);

// Words of a quarter's tiles, and the invocations of a quarter.
override SIZE_M: u32 = DEPTH4 * 4u * TILE_M4;
override SIZE_N: u32 = DEPTH4 * 4u * TILE_N4;
override THREADS: u32 = THREADS_M * THREADS_N;

alias Out = vec4<f32>;

var<workgroup> tile_x: array<vec4<X>, 4u * SIZE_M>;
var<workgroup> tile_w: array<vec4<W>, 4u * SIZE_N>;
var<workgroup> partial: array<vec4<f32>, 3u * THREADS>;

@compute @workgroup_size(THREADS_N, THREADS_M, 4)
fn product(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
    let quarter = invocation / THREADS;
    let lane = invocation % THREADS;
    let base_x = quarter * SIZE_M;
    let base_w = quarter * SIZE_N;
    let rows = bound(params.rows);
    let groups_k = (params.k + 3u) / 4u;
    let first_row = group.y * TILE_M4 * 4u;
    // With two halves a tile is half as many columns of both.
    let half_n4 = TILE_N4 / HALVES;
    let first_column = group.x * half_n4 * 4u;
    let tx = lane % THREADS_N;
    let ty = lane / THREADS_N;

    // Row r: acc[2r] holds its first four columns, acc[2r+1] the other four.
    var acc: array<vec4<f32>, 16>;
    let quarter_k = (groups_k + 3u) / 4u;
    let start = quarter * quarter_k;
    let end = min(start + quarter_k, groups_k);
    for (var done = 0u; done < quarter_k; done += DEPTH4) {
        let k0 = start + done;
        workgroupBarrier();
        for (var turn = 0u; turn < TURNS_M; turn++) {
            let i = lane + turn * THREADS;
            if (i >= DEPTH4 * TILE_M4) {
                break;
            }
            let k4 = i % DEPTH4;
            let m4 = i / DEPTH4;
            let row = first_row + 4u * m4;
            // Beyond the quarter's end, x is zero.
            let counts = k0 + k4 < end;
            let a = select(vec4<X>(), x4(min(row, rows - 1u), k0 + k4), counts);
            let b = select(vec4<X>(), x4(min(row + 1u, rows - 1u), k0 + k4), counts);
            let c = select(vec4<X>(), x4(min(row + 2u, rows - 1u), k0 + k4), counts);
            let d = select(vec4<X>(), x4(min(row + 3u, rows - 1u), k0 + k4), counts);
            let at = base_x + 4u * k4 * TILE_M4 + m4;
            tile_x[at] = vec4<X>(a.x, b.x, c.x, d.x);
            tile_x[at + TILE_M4] = vec4<X>(a.y, b.y, c.y, d.y);
            tile_x[at + 2u * TILE_M4] = vec4<X>(a.z, b.z, c.z, d.z);
            tile_x[at + 3u * TILE_M4] = vec4<X>(a.w, b.w, c.w, d.w);
        }
        for (var turn = 0u; turn < TURNS_N; turn++) {
            let i = lane + turn * THREADS;
            if (i >= DEPTH4 * TILE_N4) {
                break;
            }
            let k4 = i % DEPTH4;
            let n4 = i / DEPTH4;
            let half = n4 / half_n4;
            let column = first_column + 4u * (n4 % half_n4);
            // There any weight will do.
            let k = min(k0 + k4, groups_k - 1u);
            let last = params.columns - 1u;
            let a = w4(half, min(column, last), k);
            let b = w4(half, min(column + 1u, last), k);
            let c = w4(half, min(column + 2u, last), k);
            let d = w4(half, min(column + 3u, last), k);
            let at = base_w + 4u * k4 * TILE_N4 + n4;
            tile_w[at] = vec4<W>(a.x, b.x, c.x, d.x);
            tile_w[at + TILE_N4] = vec4<W>(a.y, b.y, c.y, d.y);
            tile_w[at + 2u * TILE_N4] = vec4<W>(a.z, b.z, c.z, d.z);
            tile_w[at + 3u * TILE_N4] = vec4<W>(a.w, b.w, c.w, d.w);
        }
        workgroupBarrier();
        for (var k = 0u; k < 4u * DEPTH4; k++) {
            let low = vec4<f32>(tile_w[base_w + k * TILE_N4 + tx]);
            let high = vec4<f32>(tile_w[base_w + k * TILE_N4 + TILE_N4 / 2u + tx]);
            let top = vec4<f32>(tile_x[base_x + k * TILE_M4 + ty]);
            acc[0] = fma(vec4<f32>(top.x), low, acc[0]);
            acc[1] = fma(vec4<f32>(top.x), high, acc[1]);
            acc[2] = fma(vec4<f32>(top.y), low, acc[2]);
            acc[3] = fma(vec4<f32>(top.y), high, acc[3]);
            acc[4] = fma(vec4<f32>(top.z), low, acc[4]);
            acc[5] = fma(vec4<f32>(top.z), high, acc[5]);
            acc[6] = fma(vec4<f32>(top.w), low, acc[6]);
            acc[7] = fma(vec4<f32>(top.w), high, acc[7]);
            if (ROWS > 4u) {
                let bottom = vec4<f32>(tile_x[base_x + k * TILE_M4 + THREADS_M + ty]);
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

    acc[0] = total(quarter, lane, acc[0]);
    acc[1] = total(quarter, lane, acc[1]);
    acc[2] = total(quarter, lane, acc[2]);
    acc[3] = total(quarter, lane, acc[3]);
    acc[4] = total(quarter, lane, acc[4]);
    acc[5] = total(quarter, lane, acc[5]);
    acc[6] = total(quarter, lane, acc[6]);
    acc[7] = total(quarter, lane, acc[7]);
    if (ROWS > 4u) {
        acc[8] = total(quarter, lane, acc[8]);
        acc[9] = total(quarter, lane, acc[9]);
        acc[10] = total(quarter, lane, acc[10]);
        acc[11] = total(quarter, lane, acc[11]);
        acc[12] = total(quarter, lane, acc[12]);
        acc[13] = total(quarter, lane, acc[13]);
        acc[14] = total(quarter, lane, acc[14]);
        acc[15] = total(quarter, lane, acc[15]);
    }
    if (quarter > 0u) {
        return;
    }
    let row = first_row + 4u * ty;
    let column = first_column + 4u * tx;
    store(rows, row, column, acc[0], acc[1]);
    store(rows, row + 1u, column, acc[2], acc[3]);
    store(rows, row + 2u, column, acc[4], acc[5]);
    store(rows, row + 3u, column, acc[6], acc[7]);
    if (ROWS > 4u) {
        let below = row + 4u * THREADS_M;
        store(rows, below, column, acc[8], acc[9]);
        store(rows, below + 1u, column, acc[10], acc[11]);
        store(rows, below + 2u, column, acc[12], acc[13]);
        store(rows, below + 3u, column, acc[14], acc[15]);
    }
}

// The sum of the four quarters, in the first.
fn total(quarter: u32, lane: u32, chain: vec4<f32>) -> vec4<f32> {
    if (quarter > 0u) {
        partial[(quarter - 1u) * THREADS + lane] = chain;
    }
    workgroupBarrier();
    let sum = ((chain + partial[lane]) + partial[THREADS + lane]) + partial[2u * THREADS + lane];
    workgroupBarrier();
    return sum;
}

// Both groups of four columns of a row; one group where they are the halves of a gate. The last group may reach into
// the row's padding.
fn store(rows: u32, row: u32, column: u32, low: vec4<f32>, high: vec4<f32>) {
    if (row >= rows) {
        return;
    }
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

// Four elements of a column of the weight, as they are multiplied.
fn w4(half: u32, column: u32, k4: u32) -> vec4<W> {
    return vec4<W>(round_w(decode(word(half, column, k4))));
}
