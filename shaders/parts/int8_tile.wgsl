// Products of INT8 codes, exact in i32: a workgroup of 256 computes 64 rows of 64 columns (of both halves of a gate), an
// invocation four of four. Operands pass through workgroup memory, four codes a word.
//
// From the step: params.{rows, words, columns, first, x_stride, w_stride, out_stride, zero}, HALVES, codes, scales, word,
// finish, out.
const DEPTH: u32 = 16u; // words a turn

// Four rows' or columns' words: [word][row / 4].
var<workgroup> tile_x: array<vec4<u32>, 256>;
var<workgroup> tile_w: array<vec4<u32>, 512>;

@compute @workgroup_size(16, 16)
fn int8_product(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let rows = bound(params.rows);
    let first_row = 64u * group.y;
    let first_column = 64u * group.x;
    let tx = lane % 16u;
    let ty = lane / 16u;
    // What this invocation fetches: a word of four rows and of four columns.
    let w = lane % DEPTH;
    let four = lane / DEPTH;

    // By row: the sums of four columns.
    var low: array<vec4<i32>, 4>;
    var high: array<vec4<i32>, 4>;
    for (var k = 0u; k < params.words; k += DEPTH) {
        let counts = k + w < params.words;
        let at = min(k + w, params.words - 1u);
        let x = select(vec4<u32>(), four_rows(rows, first_row + 4u * four, at), counts);
        let a = four_columns(0u, first_column + 4u * four, at);
        workgroupBarrier();
        tile_x[w * 16u + four] = x;
        tile_w[w * 16u + four] = a;
        if (HALVES == 2u) {
            tile_w[256u + w * 16u + four] = four_columns(1u, first_column + 4u * four, at);
        }
        workgroupBarrier();
        for (var j = 0u; j < DEPTH; j++) {
            let x4 = tile_x[j * 16u + ty];
            let a4 = tile_w[j * 16u + tx];
            low[0] += products(x4.x, a4);
            low[1] += products(x4.y, a4);
            low[2] += products(x4.z, a4);
            low[3] += products(x4.w, a4);
            if (HALVES == 2u) {
                let b4 = tile_w[256u + j * 16u + tx];
                high[0] += products(x4.x, b4);
                high[1] += products(x4.y, b4);
                high[2] += products(x4.z, b4);
                high[3] += products(x4.w, b4);
            }
        }
    }
    let column = first_column + 4u * tx;
    if (column >= params.columns) {
        return;
    }
    for (var r = 0u; r < 4u; r++) {
        let row = first_row + 4u * ty + r;
        if (row < rows) {
            let n4 = (params.first + column) / 4u;
            out[row * params.out_stride + n4] = finish(row, n4, low[r], high[r]);
        }
    }
}

fn four_rows(rows: u32, row: u32, at: u32) -> vec4<u32> {
    let r = min(vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(rows - 1u)) * params.x_stride + at;
    return vec4<u32>(codes[r.x], codes[r.y], codes[r.z], codes[r.w]);
}

fn four_columns(half: u32, column: u32, at: u32) -> vec4<u32> {
    let c = min(vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.columns - 1u)) * params.w_stride + at;
    return vec4<u32>(word(half, c.x), word(half, c.y), word(half, c.z), word(half, c.w));
}

fn products(x: u32, w: vec4<u32>) -> vec4<i32> {
    return vec4<i32>(
        dot4I8Packed(x, w.x),
        dot4I8Packed(x, w.y),
        dot4I8Packed(x, w.z),
        dot4I8Packed(x, w.w),
    );
}

// A value as it is, but so that no driver can know it: a product that is added to something afterwards stays rounded.
fn apart(v: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) ^ vec4<u32>(params.zero));
}

fn scaled(sum: vec4<i32>, scale: f32, weight_scales: vec4<f32>) -> vec4<f32> {
    return apart((vec4<f32>(sum) * scale) * weight_scales);
}
