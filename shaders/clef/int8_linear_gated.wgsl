// Int8LinearGated: out = activation(first half) · second half of the product of Int8Linear. With int8_tile.wgsl and
// activation.wgsl.
struct Params {
    rows: u32,
    words: u32, // of four codes a row
    columns: u32, // of this piece of each half of the weight
    first: u32,
    x_stride: u32, // in words
    w_stride: u32,
    out_stride: u32, // in groups of four elements
    activation: u32,
    bias: u32, // whether there is one
    up: u32, // the second half's first scale and bias
    zero: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> gate: array<u32>;
@group(0) @binding(5) var<storage, read> up: array<u32>;
@group(0) @binding(6) var<storage, read> weight_scales: array<f32>;
@group(0) @binding(7) var<storage, read> bias: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<vec4<f32>>;

const HALVES: u32 = 2u;

fn word(half: u32, at: u32) -> u32 {
    if (half == 0u) {
        return gate[at];
    }
    return up[at];
}

fn finish(row: u32, n4: u32, g: vec4<i32>, u: vec4<i32>) -> vec4<f32> {
    var a = scaled(g, scales[row], four_scales(4u * n4));
    var b = scaled(u, scales[row], four_scales(params.up + 4u * n4));
    if (params.bias != 0u) {
        a += four_biases(4u * n4);
        b += four_biases(params.up + 4u * n4);
    }
    let f = activate(params.activation, a);
    return (f.a * f.b) * b;
}

// Where half a weight is no multiple of four rows wide, its second half does not start at one.
fn four_scales(n: u32) -> vec4<f32> {
    let i = min(vec4<u32>(n) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(2u * params.up - 1u));
    return vec4<f32>(weight_scales[i.x], weight_scales[i.y], weight_scales[i.z], weight_scales[i.w]);
}

fn four_biases(n: u32) -> vec4<f32> {
    let i = min(vec4<u32>(n) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(2u * params.up - 1u));
    return vec4<f32>(bias[i.x], bias[i.y], bias[i.z], bias[i.w]);
}
