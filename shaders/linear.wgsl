// Linear: out = activation(x·Wᵀ + b) + residual.
// With tile.wgsl or skinny.wgsl, x_f32.wgsl and a format.
struct Params {
    rows: u32,
    k: u32,
    columns: u32, // of this piece of the weight
    first: u32, // its first column in the result, a multiple of four
    x_stride: u32, // strides in groups of four elements
    w_stride: u32,
    out_stride: u32,
    activation: u32,
    bias: u32, // whether there is one
    residual: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read> weight: array<Word>;
@group(0) @binding(4) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> residual: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> out: array<Out>;

const HALVES: u32 = 1u;

fn word(half: u32, column: u32, at: u32) -> Word {
    return weight[column * params.w_stride + at];
}

fn finish(row: u32, n4: u32, sum: vec4<f32>, unused: vec4<f32>) -> vec4<f32> {
    var v = sum;
    if (params.bias != 0u) {
        v += bias[n4];
    }
    let f = activate(params.activation, v);
    if (params.residual != 0u) {
        return fma(f.a, f.b, residual[row * params.out_stride + n4]);
    }
    return f.a * f.b;
}
