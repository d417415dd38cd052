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
    for (var k = 0u; k < groups_k; k++) {
        let a = vec4<f32>(x4(row, k));
        let b = vec4<f32>(x4(row1, k));
        let c = vec4<f32>(x4(row2, k));
        let d = vec4<f32>(x4(row3, k));
        let x = vec4<f32>(a.x, b.x, c.x, d.x);
        let y = vec4<f32>(a.y, b.y, c.y, d.y);
        let z = vec4<f32>(a.z, b.z, c.z, d.z);
        let w = vec4<f32>(a.w, b.w, c.w, d.w);
        let v = vec4<f32>(w4(0u, column, k));
        low = fma(x, vec4<f32>(v.x), low);
        low = fma(y, vec4<f32>(v.y), low);
        low = fma(z, vec4<f32>(v.z), low);
        low = fma(w, vec4<f32>(v.w), low);
        if (HALVES == 2u) {
            let u = vec4<f32>(w4(1u, column, k));
            high = fma(x, vec4<f32>(u.x), high);
            high = fma(y, vec4<f32>(u.y), high);
            high = fma(z, vec4<f32>(u.z), high);
            high = fma(w, vec4<f32>(u.w), high);
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
