// x·Wᵀ for few rows: an invocation computes one column of up to four rows, straight from storage memory.
//
// The sum of an element is that of tile.wgsl, four chains: the same bits.
override LANES: u32 = 64u;

alias Out = f32;

@compute @workgroup_size(LANES)
fn product(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let column = group.x * LANES + lane;
    if (column >= params.columns) {
        return;
    }
    let rows = bound(params.rows);
    let row = 4u * group.y;
    let row1 = min(row + 1u, rows - 1u);
    let row2 = min(row + 2u, rows - 1u);
    let row3 = min(row + 3u, rows - 1u);
    let groups_k = (params.k + 3u) / 4u;

    // The four rows' sums of the four quarters of k.
    let quarter_k = (groups_k + 3u) / 4u;
    var low0: vec4<f32>;
    var low1: vec4<f32>;
    var low2: vec4<f32>;
    var low3: vec4<f32>;
    var high0: vec4<f32>;
    var high1: vec4<f32>;
    var high2: vec4<f32>;
    var high3: vec4<f32>;
    for (var k = 0u; k < quarter_k; k++) {
        // Beyond the end of k, x is zero and any weight will do.
        let at = vec4<u32>(k) + vec4<u32>(0u, 1u, 2u, 3u) * quarter_k;
        let w_at = min(at, vec4<u32>(groups_k - 1u));
        let x0 = columns_of(row, row1, row2, row3, at.x);
        let x1 = columns_of(row, row1, row2, row3, at.y);
        let x2 = columns_of(row, row1, row2, row3, at.z);
        let x3 = columns_of(row, row1, row2, row3, at.w);
        let v0 = vec4<f32>(w4(0u, column, w_at.x));
        let v1 = vec4<f32>(w4(0u, column, w_at.y));
        let v2 = vec4<f32>(w4(0u, column, w_at.z));
        let v3 = vec4<f32>(w4(0u, column, w_at.w));
        low0 = add(x0, v0, low0);
        low1 = add(x1, v1, low1);
        low2 = add(x2, v2, low2);
        low3 = add(x3, v3, low3);
        if (HALVES == 2u) {
            high0 = add(x0, vec4<f32>(w4(1u, column, w_at.x)), high0);
            high1 = add(x1, vec4<f32>(w4(1u, column, w_at.y)), high1);
            high2 = add(x2, vec4<f32>(w4(1u, column, w_at.z)), high2);
            high3 = add(x3, vec4<f32>(w4(1u, column, w_at.w)), high3);
        }
    }
    let low = ((low0 + low1) + low2) + low3;
    let high = ((high0 + high1) + high2) + high3;
    for (var r = 0u; r < 4u; r++) {
        if (row + r < rows) {
            let n = params.first + column;
            let v = finish(row + r, n / 4u, vec4<f32>(low[r]), vec4<f32>(high[r]));
            out[(row + r) * params.out_stride * 4u + n] = v[n % 4u];
        }
    }
}

// Elements 4 k4 to 4 k4 + 3 of a row of x, as they are multiplied; zeros beyond its end.
fn x4(row: u32, k4: u32) -> vec4<X> {
    return vec4<X>(round_x(decode_x(raw_x(row, k4, 4u * k4 < params.k))));
}

// Four elements of a column of the weight, as they are multiplied.
fn w4(half: u32, column: u32, k4: u32) -> vec4<W> {
    return vec4<W>(round_w(decode(word(half, column, k4))));
}

// Group k of four rows, by k.
fn columns_of(row: u32, row1: u32, row2: u32, row3: u32, k: u32) -> mat4x4<f32> {
    let a = vec4<f32>(x4(row, k));
    let b = vec4<f32>(x4(row1, k));
    let c = vec4<f32>(x4(row2, k));
    let d = vec4<f32>(x4(row3, k));
    return transpose(mat4x4<f32>(a, b, c, d));
}

// Four more terms of four rows' sums, in order.
fn add(x: mat4x4<f32>, v: vec4<f32>, sum: vec4<f32>) -> vec4<f32> {
    let one = fma(x[0], vec4<f32>(v.x), sum);
    let two = fma(x[1], vec4<f32>(v.y), one);
    let three = fma(x[2], vec4<f32>(v.z), two);
    return fma(x[3], vec4<f32>(v.w), three);
}
