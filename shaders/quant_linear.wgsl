// QuantLinear: out = (Σ e4m3(codes)·e4m3(W) · scales[row]) · weight_scales[n] + residual.
// With tile.wgsl or skinny.wgsl, x_e4m3.wgsl and format_e4m3.wgsl; or with coop.wgsl and the parts that read sixteen codes. Products of two E4M3 values are exact.
struct Params {
    rows: u32,
    k: u32,
    columns: u32,
    first: u32,
    x_stride: u32,
    w_stride: u32,
    out_stride: u32,
    residual: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> weight: array<Word>;
@group(0) @binding(5) var<storage, read> weight_scales: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> residual: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> out: array<Out>;

const HALVES: u32 = 1u;

fn word(half: u32, column: u32, at: u32) -> Word {
    return weight[column * params.w_stride + at];
}

fn finish(row: u32, n4: u32, sum: vec4<f32>, unused: vec4<f32>) -> vec4<f32> {
    let v = sum * scales[row];
    if (params.residual != 0u) {
        // Explicit: a driver may fuse the two or not, and the loops must not differ.
        return fma(v, weight_scales[n4], residual[row * params.out_stride + n4]);
    }
    return v * weight_scales[n4];
}
