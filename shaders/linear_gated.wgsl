// LinearGated: out = activation(x·W₀ᵀ) · (x·W₁ᵀ).
// With tile.wgsl or skinny.wgsl, x_f32.wgsl and a format.
struct Params {
    rows: u32,
    k: u32,
    columns: u32, // of this piece of each half of the weight
    first: u32,
    x_stride: u32,
    w_stride: u32,
    out_stride: u32,
    activation: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read> gate: array<Word>;
@group(0) @binding(4) var<storage, read> up: array<Word>;
@group(0) @binding(5) var<storage, read_write> out: array<Out>;

const HALVES: u32 = 2u;

fn word(half: u32, column: u32, at: u32) -> Word {
    if (half == 0u) {
        return gate[column * params.w_stride + at];
    }
    return up[column * params.w_stride + at];
}

fn finish(row: u32, n4: u32, g: vec4<f32>, u: vec4<f32>) -> vec4<f32> {
    let f = activate(params.activation, g);
    return (f.a * f.b) * u;
}
