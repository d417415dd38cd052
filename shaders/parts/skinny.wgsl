// x·Wᵀ for few rows: an invocation computes one column of up to four rows, straight from storage memory.
//
// The sum of an element is the chain of tile.wgsl: the same bits.
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

    // The four rows' sums.
    var low: vec4<f32>;
    var high: vec4<f32>;
    // Four groups at once, so that their loads are under way together. The last ones may repeat the last group; their
    // x is zero.
    for (var k = 0u; k < groups_k; k += 4u) {
        let x0 = columns_of(row, row1, row2, row3, k);
        let x1 = columns_of(row, row1, row2, row3, k + 1u);
        let x2 = columns_of(row, row1, row2, row3, k + 2u);
        let x3 = columns_of(row, row1, row2, row3, k + 3u);
        let k1 = min(k + 1u, groups_k - 1u);
        let k2 = min(k + 2u, groups_k - 1u);
        let k3 = min(k + 3u, groups_k - 1u);
        let v0 = vec4<f32>(w4(0u, column, k));
        let v1 = vec4<f32>(w4(0u, column, k1));
        let v2 = vec4<f32>(w4(0u, column, k2));
        let v3 = vec4<f32>(w4(0u, column, k3));
        low = add(x3, v3, add(x2, v2, add(x1, v1, add(x0, v0, low))));
        if (HALVES == 2u) {
            let u0 = vec4<f32>(w4(1u, column, k));
            let u1 = vec4<f32>(w4(1u, column, k1));
            let u2 = vec4<f32>(w4(1u, column, k2));
            let u3 = vec4<f32>(w4(1u, column, k3));
            high = add(x3, u3, add(x2, u2, add(x1, u1, add(x0, u0, high))));
        }
    }
    for (var r = 0u; r < 4u; r++) {
        if (row + r < rows) {
            let n = params.first + column;
            let v = finish(row + r, n / 4u, vec4<f32>(low[r]), vec4<f32>(high[r]));
            out[(row + r) * params.out_stride * 4u + n] = v[n % 4u];
        }
    }
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
