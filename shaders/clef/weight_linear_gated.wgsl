// Int8LinearGated with rows that are not rounded to codes: activation(first half) · second half of the product of
// weight_linear.wgsl. With the same parts and activation.wgsl.
struct Params {
    rows: u32,
    k: u32,
    columns: u32, // of this piece of each half of the weight
    first: u32,
    x_stride: u32, // in groups of four elements
    w_stride: u32, // in words of the format
    out_stride: u32,
    activation: u32,
    bias: u32, // whether there is one
    up: u32, // the second half's first scale and bias
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> gate: array<Word>;
@group(0) @binding(5) var<storage, read> up: array<Word>;
@group(0) @binding(6) var<storage, read> weight_scales: array<f32>;
@group(0) @binding(7) var<storage, read> bias: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<Out>;

const HALVES: u32 = 2u;

fn word(half: u32, column: u32, at: u32) -> Word {
    if (half == 0u) {
        return gate[column * params.w_stride + at];
    }
    return up[column * params.w_stride + at];
}

fn finish(row: u32, n4: u32, g: vec4<f32>, u: vec4<f32>) -> vec4<f32> {
    let scale = scales[row];
    let f = activate(params.activation, scaled(g * scale, 4u * n4));
    return (f.a * f.b) * scaled(u * scale, params.up + 4u * n4);
}

// Four columns from any on: where half a weight is no multiple of four rows wide, its second half does not start at one.
fn scaled(v: vec4<f32>, n: u32) -> vec4<f32> {
    let i = min(vec4<u32>(n) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(2u * params.up - 1u));
    let s = vec4<f32>(weight_scales[i.x], weight_scales[i.y], weight_scales[i.z], weight_scales[i.w]);
    if (params.bias != 0u) {
        return fma(v, s, vec4<f32>(bias[i.x], bias[i.y], bias[i.z], bias[i.w]));
    }
    return v * s;
}
