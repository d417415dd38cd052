// Int8Linear with rows that are not rounded to codes: out = (Σ x·W · scales[row]) · weight_scales[n] (+ bias) (+ residual).
// With tile.wgsl or skinny.wgsl, x_f16.wgsl or x_f32.wgsl, and format_int8.wgsl; or with coop.wgsl and coop_int8.wgsl.
struct Params {
    rows: u32,
    k: u32,
    columns: u32, // of this piece of the weight
    first: u32, // its first column in the result, a multiple of four
    x_stride: u32, // in groups of four elements
    w_stride: u32, // in words of the format
    out_stride: u32,
    bias: u32, // whether there is one
    residual: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> weight: array<Word>;
@group(0) @binding(5) var<storage, read> weight_scales: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read> residual: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> out: array<Out>;

const HALVES: u32 = 1u;

fn word(half: u32, column: u32, at: u32) -> Word {
    return weight[column * params.w_stride + at];
}

// Explicit fused operations: a driver may fuse a product and a sum or not, and the loops must not differ.
fn finish(row: u32, n4: u32, sum: vec4<f32>, unused: vec4<f32>) -> vec4<f32> {
    let v = sum * scales[row];
    if (params.bias != 0u) {
        let biased = fma(v, weight_scales[n4], bias[n4]);
        if (params.residual != 0u) {
            return biased + residual[row * params.out_stride + n4];
        }
        return biased;
    }
    if (params.residual != 0u) {
        return fma(v, weight_scales[n4], residual[row * params.out_stride + n4]);
    }
    return v * weight_scales[n4];
}
