// Int8Linear: out = (f32(Σ codes·W) · scales[row]) · weight_scales[n] (+ bias) (+ residual), each operation rounded on its own.
// With int8_tile.wgsl.
struct Params {
    rows: u32,
    words: u32, // of four codes a row
    columns: u32, // of this piece of the weight
    first: u32, // its first column in the result, a multiple of four
    x_stride: u32, // in words
    w_stride: u32,
    out_stride: u32, // in groups of four elements
    bias: u32, // whether there is one
    residual: u32,
    zero: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> weight: array<u32>;
@group(0) @binding(5) var<storage, read> weight_scales: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read> residual: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> out: array<vec4<f32>>;

const HALVES: u32 = 1u;

fn word(half: u32, at: u32) -> u32 {
    return weight[at];
}

fn finish(row: u32, n4: u32, sum: vec4<i32>, unused: vec4<i32>) -> vec4<f32> {
    var v = scaled(sum, scales[row], weight_scales[n4]);
    if (params.bias != 0u) {
        v += bias[n4];
    }
    if (params.residual != 0u) {
        v += residual[row * params.out_stride + n4];
    }
    return v;
}
